// The scenario of test_clients.py with devour-client: node devour.js URL
import assert from 'node:assert/strict'
import JsonApi from 'devour-client'

// The types of the service are singular, its paths are plural.
const plural = Object.assign((word) => `${word}s`, { singular: (word) => word })
const errorBuilder = (error) => error

const api = new JsonApi({ apiUrl: process.argv[2], logger: false, pluralize: plural, errorBuilder })
api.define(
  'person',
  {
    first_name: '',
    last_name: '',
    full_name: '',
    email: '',
    computers: { jsonApi: 'hasMany', type: 'computer' }
  },
  { type: 'person', readOnly: ['full_name'] }
)
api.define(
  'computer',
  { serial: '', owner: { jsonApi: 'hasOne', type: 'person' } },
  { type: 'computer' }
)

const serials = (person) => person.computers.map((computer) => computer.serial)

const isDeleted = (type, id) =>
  assert.rejects(api.find(type, id), (errors) => errors[0].status === '404')

// create
await api.create('person', { first_name: 'Ada', last_name: 'Lovelace' })
const email = 'grace@example.com'
const { data: grace } = await api.create('person', {
  first_name: 'Grace',
  last_name: 'Murray',
  email
})
assert.deepEqual([grace.first_name, grace.last_name, grace.email], ['Grace', 'Murray', email])
const { data: one } = await api.create('computer', { serial: 'SN-1' })
const { data: two } = await api.create('computer', { serial: 'SN-2', owner: grace })
assert.deepEqual([one.serial, two.serial], ['SN-1', 'SN-2'])
assert.equal(two.owner.id, grace.id)

// read
const { data: read } = await api.find('person', grace.id)
assert.equal(read.full_name, 'Grace Murray')
assert.equal((await api.find('computer', one.id)).data.serial, 'SN-1')
const all = await api.findAll('person')
assert.deepEqual(all.data.map((person) => person.full_name), ['Ada Lovelace', 'Grace Murray'])
assert.equal(all.meta.count, 2)

// update
const change = { id: grace.id, last_name: 'Hopper', computers: [one, two] }
const { data: updated } = await api.update('person', change, { include: 'computers' })
assert.deepEqual([updated.full_name, updated.email], ['Grace Hopper', email])
assert.deepEqual(serials(updated), ['SN-1', 'SN-2'])
const { data: renamed } = await api.update('computer', { id: two.id, serial: 'SN-3' })
assert.equal(renamed.serial, 'SN-3')

// include
const { data: owner } = await api.find('person', grace.id, { include: 'computers' })
assert.deepEqual(serials(owner), ['SN-1', 'SN-3'])
const { data: computers } = await api.findAll('computer', {
  include: 'owner',
  fields: { person: 'full_name' }
})
assert.deepEqual(
  computers.map((computer) => [computer.serial, computer.owner.full_name, computer.owner.email]),
  [['SN-1', 'Grace Hopper', undefined], ['SN-3', 'Grace Hopper', undefined]]
)

// delete
await api.destroy('computer', one.id)
await isDeleted('computer', one.id)
const { data: left } = await api.find('person', grace.id, { include: 'computers' })
assert.deepEqual(serials(left), ['SN-3'])
await api.destroy('person', grace.id)
await isDeleted('person', grace.id)
const { data: unowned } = await api.find('computer', two.id, { include: 'owner' })
assert.equal(unowned.owner, null)
