// The scenario of test_clients.py with openapi-fetch: node scenario.ts URL
// An `@ts-expect-error` shows that the generated types reject a wrong request: tsc fails without it.
import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import type { components, paths } from './schema.ts'

type Person = components['schemas']['PersonResource']
type Computer = components['schemas']['ComputerResource']

const ATOMIC = 'application/vnd.api+json; ext="https://jsonapi.org/ext/atomic"'
const headers = { 'Content-Type': 'application/vnd.api+json' }
const api = createClient<paths, `application/vnd.api+json${string}`>({
  baseUrl: process.argv[2],
  querySerializer: { array: { style: 'form', explode: false } }
})

function only<Type extends string>(resources: { type: string }[] | undefined, type: Type) {
  return (resources ?? []).filter(
    (each): each is Extract<Person | Computer, { type: Type }> => each.type === type
  )
}

// create
const names = { first_name: 'Grace', last_name: 'Hopper' }
const created = await api.POST('/persons', {
  headers,
  body: { data: { type: 'person', attributes: { ...names, email: 'grace@example.com' } } }
})
assert.equal(created.response.status, 201)
assert.ok(created.data)
const grace: Person = created.data.data
assert.deepEqual([grace.id, grace.attributes.email], ['1', 'grace@example.com'])
for (const serial of ['0', '1', '2']) {
  const { error } = await api.POST('/computers', {
    headers,
    body: { data: { type: 'computer', attributes: { serial } } }
  })
  assert.equal(error, undefined)
}

// a value that is taken
const again = await api.POST('/computers', {
  headers,
  body: { data: { type: 'computer', attributes: { serial: '0' } } }
})
assert.equal(again.error?.errors[0].links?.about, '/computers/1')

// relationships
const linkage = '/persons/{id}/relationships/computers' as const
const path = { id: Number(grace.id) }
const replaced = await api.PATCH(linkage, {
  headers,
  params: { path },
  body: {
    data: [
      { type: 'computer', id: '1' },
      { type: 'computer', id: 2 }
    ]
  }
})
assert.equal(replaced.response.status, 204)
const removed = await api.DELETE(linkage, {
  headers,
  params: { path },
  body: { data: [{ type: 'computer', id: '2' }] }
})
assert.equal(removed.response.status, 204)
const members = await api.GET(linkage, { params: { path } })
assert.deepEqual(members.data?.data, [{ type: 'computer', id: '1' }])

// list with include, filter and sort, and pages
const listed = await api.GET('/persons', {
  params: { query: { include: ['computers'], 'filter[first_name]': ['Grace', 'Ada'] } }
})
assert.equal(listed.data?.data[0].attributes.full_name, 'Grace Hopper')
const serials = only(listed.data?.included, 'computer').map(({ attributes }) => attributes.serial)
assert.deepEqual(serials, ['0'])
const page = await api.GET('/computers', {
  params: { query: { 'page[number]': 1, 'page[size]': 2, sort: '-serial,id' } }
})
assert.deepEqual(page.data?.data.map(({ id }) => id), ['3', '2'])
assert.equal(page.data?.meta.total, 3)
assert.ok(page.data.links.next)

// patch, on the condition that nobody else has
const read = await api.GET('/persons/{id}', { params: { path } })
const etag = read.response.headers.get('ETag') ?? ''
const revision = { type: 'person', id: '1', attributes: { last_name: 'Murray' } } as const
const updated = await api.PATCH('/persons/{id}', {
  headers,
  params: { path, header: { 'If-Match': etag } },
  body: { data: revision }
})
assert.equal(updated.data?.data.attributes.full_name, 'Grace Murray')
const late = await api.PATCH('/persons/{id}', {
  headers,
  params: { path, header: { 'If-Match': etag } },
  body: { data: { type: 'person', attributes: { last_name: 'Hopper' } } }
})
assert.equal(late.error?.errors[0].code, 'precondition_failed')

// atomic operations
const performed = await api.POST('/operations', {
  headers: { 'Content-Type': ATOMIC },
  body: {
    'atomic:operations': [
      {
        op: 'add',
        data: {
          type: 'person',
          lid: 'ada',
          attributes: { first_name: 'Ada', last_name: 'Lovelace' }
        }
      },
      {
        op: 'update',
        ref: { type: 'computer', id: '3', relationship: 'owner' },
        data: { type: 'person', lid: 'ada' }
      },
      { op: 'remove', href: '/computers/2' }
    ]
  }
})
assert.equal(performed.data?.['atomic:results'].length, 3)
const owner = await api.GET('/computers/{id}/owner', { params: { path: { id: 3 } } })
assert.equal(owner.data?.data?.attributes.full_name, 'Ada Lovelace')

// errors
assert.equal((await api.DELETE('/persons/{id}', { params: { path } })).response.status, 204)
const missing = await api.GET('/persons/{id}', { params: { path } })
assert.equal(missing.data, undefined)
assert.equal(missing.error?.errors[0].code, 'not_found')
const invalid = await api.POST('/persons', {
  headers,
  body: { data: { type: 'person', attributes: { first_name: '', last_name: 'Lovelace' } } }
})
const pointers = invalid.error?.errors.map(({ source }) => source?.pointer)
assert.deepEqual(pointers, ['/data/attributes/first_name'])

// what the types reject, and the service too
const rejected = await Promise.all([
  // @ts-expect-error: no such attribute
  api.POST('/persons', { headers, body: { data: { type: 'person', attributes: { ...names, age: 7 } } } }),
  // @ts-expect-error: a required attribute is missing
  api.POST('/persons', { headers, body: { data: { type: 'person', attributes: { first_name: 'Ada' } } } }),
  // @ts-expect-error: another type
  api.POST('/persons', { headers, body: { data: { type: 'computer', attributes: names } } }),
  // @ts-expect-error: no such relationship
  api.GET('/persons', { params: { query: { include: ['owner'] } } }),
  // @ts-expect-error: no such path
  api.GET('/printers')
])
assert.deepEqual(rejected.map(({ response }) => response.status), [422, 422, 409, 400, 404])
