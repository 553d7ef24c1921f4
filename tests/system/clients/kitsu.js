// The scenario of test_clients.py with kitsu: node kitsu.js URL
import assert from 'node:assert/strict'
import Kitsu from 'kitsu'

const api = new Kitsu({ baseURL: process.argv[2], pluralize: false })

// post() and patch() use the last path segment as the type, which is plural, unlike the type.
const create = (type, body) => api.request({ method: 'POST', url: `${type}s`, type, body })
const update = (type, body, params) =>
  api.request({ method: 'PATCH', url: `${type}s/${body.id}`, type, body, params })

const serials = (person) => person.computers.data.map((computer) => computer.serial)

const isDeleted = (path) =>
  assert.rejects(api.get(path), ({ errors }) => errors[0].status === '404')

// create
await create('person', { first_name: 'Ada', last_name: 'Lovelace' })
const email = 'grace@example.com'
const { data: grace, status } = await create('person', {
  first_name: 'Grace',
  last_name: 'Murray',
  email
})
assert.equal(status, 201)
assert.deepEqual([grace.first_name, grace.last_name, grace.email], ['Grace', 'Murray', email])
const owned = { serial: 'SN-2', owner: { data: { type: 'person', id: grace.id } } }
const { data: one } = await create('computer', { serial: 'SN-1' })
const { data: two } = await create('computer', owned)
assert.deepEqual([one.serial, two.serial], ['SN-1', 'SN-2'])
assert.equal(two.owner.data.id, grace.id)

// read
const { data: read } = await api.get(`persons/${grace.id}`)
assert.equal(read.full_name, 'Grace Murray')
assert.equal((await api.get(`computers/${one.id}`)).data.serial, 'SN-1')
const all = await api.get('persons')
assert.deepEqual(all.data.map((person) => person.full_name), ['Ada Lovelace', 'Grace Murray'])
assert.equal(all.meta.count, 2)

// update
const both = [one, two].map(({ type, id }) => ({ type, id }))
const change = { id: grace.id, last_name: 'Hopper', computers: { data: both } }
const { data: updated } = await update('person', change, { include: 'computers' })
assert.deepEqual([updated.full_name, updated.email], ['Grace Hopper', email])
assert.deepEqual(serials(updated), ['SN-1', 'SN-2'])
const { data: renamed } = await update('computer', { id: two.id, serial: 'SN-3' })
assert.equal(renamed.serial, 'SN-3')

// include
const withComputers = { params: { include: 'computers' } }
const { data: owner } = await api.get(`persons/${grace.id}`, withComputers)
assert.deepEqual(serials(owner), ['SN-1', 'SN-3'])
const { data: computers } = await api.get('computers', {
  params: { include: 'owner', fields: { person: 'full_name' } }
})
assert.deepEqual(
  computers.map(({ serial, owner: { data } }) => [serial, data.full_name, data.email]),
  [['SN-1', 'Grace Hopper', undefined], ['SN-3', 'Grace Hopper', undefined]]
)

// delete
assert.equal((await api.delete('computers', one.id)).status, 204)
await isDeleted(`computers/${one.id}`)
const { data: left } = await api.get(`persons/${grace.id}`, withComputers)
assert.deepEqual(serials(left), ['SN-3'])
assert.equal((await api.delete('persons', grace.id)).status, 204)
await isDeleted(`persons/${grace.id}`)
const { data: unowned } = await api.get(`computers/${two.id}`, { params: { include: 'owner' } })
assert.equal(unowned.owner.data, undefined)
