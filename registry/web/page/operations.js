/** Changes of several resources at once, and of their links, which can be undone. */

import { api, batches, Failure, isSame } from "./api.js"
import { announce, announceFailure } from "./dialogs.js"
import { refresh } from "./router.js"
import { texts } from "./texts.js"
import { countedOf, labelOf, nameOf } from "./types.js"

/** @import { Identifier, Resource } from "./api.js" */
/** @import { Relationship, Type } from "./types.js" */
/** etag: of the version that is changed, if that matters. before: the identifier it was linked to. */
/** @typedef {{ id: string, name: string, before?: Identifier | null, etag?: string }} Item */
/** What others are linked to. @typedef {Identifier & { name: string }} Target */
/** Why each failed, by id. @typedef {Map<string, string>} Failures */

const BATCH = 1_000
const MAX_PASSES = 20

/**
 * Execute an operation on each resource, in batches; those that the registry refuses are left out of their batch.
 * @param {string[]} ids
 * @param {(id: string) => object} operationOf
 * @returns {Promise<Failures>}
 */
export async function performAll(ids, operationOf) {
  /** @type {Failures} */
  const failures = new Map()
  for (let batch of batches(ids, BATCH)) {
    for (let pass = 1; batch.length > 0; pass++) {
      try {
        await api.operate(batch.map(operationOf))
        break
      } catch (error) {
        const refused = pass < MAX_PASSES && error instanceof Failure ? refusedBy(error) : new Map()
        for (const [index, id] of batch.entries()) {
          if (refused.size === 0 || refused.has(index)) failures.set(id, refused.get(index) ?? reasonOf(error))
        }
        batch = batch.filter((id) => !failures.has(id))
      }
    }
  }
  return failures
}

/** @param {unknown} error */
const reasonOf = (error) => /** @type {Error} */ (error).message

/**
 * Return what errors say of each operation that they name, by its index.
 * @param {Failure} failure
 * @returns {Map<number, string>}
 */
function refusedBy(failure) {
  const named = failure.errors.flatMap(({ source, detail }) => {
    const index = /^\/atomic:operations\/(\d+)/.exec(source?.pointer ?? "")?.[1]
    return index ? [/** @type {const} */ ([Number(index), detail])] : []
  })
  return new Map(named)
}

/**
 * Read resources with what they are linked to, and their names. Raises Failure.
 * @param {Type} type
 * @param {string[]} ids
 * @param {Relationship} [link]
 * @returns {Promise<Item[]>} those that exist
 */
export async function itemsOf(type, ids, link) {
  const fields = [type.display?.name, link?.name].filter(Boolean).join(",")
  const query = { [`fields[${type.name}]`]: fields, ...(link ? { include: link.name } : {}) }
  const item = (/** @type {Resource} */ resource, etag = "") => {
    const before = link && /** @type {Identifier | null} */ (resource.relationships?.[link.name].data ?? null)
    return { id: resource.id, name: nameOf(type, resource), before, etag }
  }
  if (ids.length === 1) {
    const { document, etag } = await api.get(`${type.path}/${ids[0]}`, query)
    return [item(document.data, etag)]
  }
  const items = []
  for (const part of batches(ids)) {
    const page = { "filter[id][in]": part.join(","), "page[size]": String(part.length) }
    const { document } = await api.get(type.path, { ...query, ...page })
    items.push(...document.data.map((/** @type {Resource} */ resource) => item(resource)))
  }
  return items
}

/**
 * Link resources to what `dataOf` returns; a single one only if it has not changed.
 * @param {Type} type
 * @param {Relationship} link
 * @param {Item[]} items
 * @param {(item: Item) => Identifier | null} dataOf
 * @returns {Promise<Failures>}
 */
async function send(type, link, items, dataOf) {
  const byId = new Map(items.map((item) => [item.id, item]))
  const resource = (/** @type {string} */ id) => {
    const target = dataOf(/** @type {Item} */ (byId.get(id)))
    const data = target && { type: target.type, id: target.id }
    return { type: type.name, id, relationships: { [link.name]: { data } } }
  }
  const [first, ...others] = items
  if (!first || others.length > 0) {
    return performAll([...byId.keys()], (id) => ({ op: "update", data: resource(id) }))
  }
  try {
    const headers = { "If-Match": first.etag || "*" }
    await api.change("PATCH", `${type.path}/${first.id}`, { body: { data: resource(first.id) }, headers })
    return new Map()
  } catch (error) {
    return new Map([[first.id, reasonOf(error)]])
  }
}

/**
 * Link resources to another one, or to none; tell it, and offer to undo it.
 * @param {Type} type
 * @param {Relationship} link
 * @param {Item[]} items
 * @param {Target | null} target
 * @returns {Promise<Failures>}
 */
export async function relink(type, link, items, target) {
  const failures = await send(type, link, items, () => target)
  const done = items.filter((item) => !failures.has(item.id))
  if (done.length > 0) {
    const what = done.length === 1 ? done[0].name : countedOf(type, done.length)
    const text = target ? texts.assigned(what, target.name) : texts.unassigned(what, done.length)
    announce(text, { offer: [texts.undo, () => undo(type, link, done, target).catch(announceFailure)] })
  }
  return failures
}

/**
 * Link resources to what they were linked to before, except those that were changed meanwhile.
 * @param {Type} type
 * @param {Relationship} link
 * @param {Item[]} items
 * @param {Identifier | null} target what they were linked to
 */
async function undo(type, link, items, target) {
  const before = new Map(items.map((item) => [item.id, item.before ?? null]))
  const current = await itemsOf(type, [...before.keys()], link)
  const isUnchanged = (/** @type {Item} */ { before: now }) => (now && target ? isSame(now, target) : !now && !target)
  const unchanged = current.filter(isUnchanged)
  const failures = await send(type, link, unchanged, ({ id }) => before.get(id) ?? null)
  const done = unchanged.length - failures.size
  const kept = items.length - done
  if (kept > 0) {
    const what = kept === 1 && items.length === 1 ? items[0].name : countedOf(type, kept)
    announce(texts.notUndone(what, labelOf(link.name), kept), { isError: true })
  } else announce(texts.undone)
  await refresh()
}
