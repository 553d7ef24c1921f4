/** Changes of several resources at once, and of their links, which can be undone. */

import { api, Failure } from "./api.js"
import { announce } from "./dialogs.js"
import { button } from "./dom.js"
import { refresh } from "./router.js"
import { countedOf, labelOf, nameOf } from "./types.js"

const BATCH = 1_000
const MAX_PASSES = 20

/** Encoded characters after which names or ids go on in another address: reverse proxies take 8,000 of one. */
const MAX_ADDRESS = 3_000

/** Characters of what may be a name: of two texts. Encoded, they are at most nine times as many. */
const MAX_NAME = 511

/**
 * Execute an operation on each resource, in batches, all or none of each (Atomic Operations). What the registry refuses
 * is left out of its batch, which is sent again; also while the registry is busy or lost.
 * @param {string[]} ids @param {(id: string) => object} operationOf
 * @param {(ids: string[]) => Promise<string[]>} select returns those of a batch that are changed when it is sent
 */
export async function performAll(ids, operationOf, select = async (ids) => ids) {
  /** @type {Failures} */
  const failures = new Map()
  for (let start = 0; start < ids.length; start += BATCH) {
    let batch = ids.slice(start, start + BATCH)
    for (let pass = 1; batch.length > 0; pass++) {
      try {
        await api.retry([0, 503], undefined, async () => {
          batch = await select(batch)
          const body = { "atomic:operations": batch.map(operationOf) }
          if (batch.length > 0) await api.change("POST", "/operations", { body })
        })
        break
      } catch (error) {
        const refused = pass < MAX_PASSES && error instanceof Failure ? refusedBy(error) : new Map()
        const reason = /** @type {Error} */ (error).message
        for (const [index, id] of batch.entries()) {
          if (refused.size === 0 || refused.has(index)) failures.set(id, refused.get(index) ?? reason)
        }
        batch = batch.filter((id) => !failures.has(id))
      }
    }
  }
  return failures
}

/** Return what errors say of each operation that they name, by its index. @param {Failure} failure */
function refusedBy({ errors }) {
  const named = errors.map(({ source, detail }) => {
    const index = /^\/atomic:operations\/(\d+)/.exec(source?.pointer ?? "")?.[1]
    return /** @type {const} */ ([Number(index), detail])
  })
  return new Map(named.filter(([index]) => !Number.isNaN(index)))
}

/**
 * Read the names of resources, and what they are linked to. Raises Failure.
 * @param {Type} type @param {string[]} ids @param {Relationship} [link] @returns {Promise<Item[]>} those that exist
 */
export async function itemsOf(type, ids, link) {
  const fields = [type.display, link].flatMap((field) => field?.name ?? []).join(",")
  const query = { [`fields[${type.name}]`]: fields, ...(link ? { include: link.name } : {}) }
  const items = []
  for (const part of addressable(ids)) {
    const page = { "filter[id][in]": part.join(","), "page[size]": String(part.length) }
    const { document } = await api.get(type.path, { ...query, ...page })
    for (const resource of /** @type {Resource[]} */ (document.data)) {
      const before = /** @type {Identifier | null} */ (resource.relationships?.[link?.name ?? ""]?.data ?? null)
      items.push({ id: resource.id, name: nameOf(type, resource), before })
    }
  }
  return items
}

/**
 * Return the resources that have one of these names, at most so many. Raises Failure.
 * @param {Type} type @param {string[]} names @param {number} limit
 */
export async function findNamed(type, names, limit) {
  const name = type.display?.name ?? ""
  const possible = names.filter((text) => text.length <= MAX_NAME && text.isWellFormed())
  const found = []
  for (const part of addressable(possible)) {
    const query = { filter: JSON.stringify([{ name, op: "in", val: part }]), [`fields[${type.name}]`]: name }
    found.push(...(await api.list(type.path, query, limit - found.length)))
  }
  return found
}

/** Divide texts into lists that an address can have. @param {string[]} texts */
function addressable(texts) {
  let length = 0
  return Map.groupBy(texts, (text) => {
    length += String(new URLSearchParams({ [JSON.stringify(text)]: "" })).length
    return Math.floor(length / MAX_ADDRESS)
  }).values()
}

/**
 * Return a resource as it is sent to link it to another one, or to none.
 * @param {Type} type @param {string} id @param {Relationship} link @param {Identifier | null} target
 */
function linkedResource(type, id, link, target) {
  const data = target && { type: target.type, id: target.id }
  return { type: type.name, id, relationships: { [link.name]: { data } } }
}

/**
 * Link resources to another one, or to none; tell it, and offer to undo it. Raises Failure.
 * @param {Type} type @param {Relationship} link @param {string[]} ids @param {Target | null} target
 * @param {string} [etag] of the version of a single resource, which must not have changed
 */
export async function relink(type, link, ids, target, etag) {
  const items = await itemsOf(type, ids, link)
  /** @type {Failures} */
  let failures = new Map()
  if (etag) {
    const body = { data: linkedResource(type, ids[0], link, target) }
    await api.change("PATCH", `${type.path}/${ids[0]}`, { body, headers: { "If-Match": etag } })
  } else failures = await performAll(ids, (id) => ({ op: "update", data: linkedResource(type, id, link, target) }))
  const done = items.filter((item) => !failures.has(item.id))
  if (done.length > 0) {
    const what = done.length === 1 ? done[0].name : countedOf(type, done.length)
    const freed = `${what} ${done.length === 1 ? "is" : "are"} no longer assigned.`
    const run = () => undo(type, link, done, target).catch(({ message }) => offer(message, true))
    /** @type {(text: string, isError: boolean) => void} */
    const offer = (text, isError) => announce(text, { isError, offer: button("Undo", run) })
    offer(target ? `${what} → ${target.name}` : freed, false)
  }
  return failures
}

/**
 * Link resources to what they were linked to before, except those that were changed meanwhile. Raises Error.
 * @param {Type} type @param {Relationship} link @param {Item[]} items
 * @param {Identifier | null} target what they were linked to since
 */
async function undo(type, link, items, target) {
  const before = new Map(items.map((item) => [item.id, item.before]))
  const ids = [...before.keys()]
  /** Return those that are still linked to it. @param {string[]} ids */
  const select = async (ids) =>
    (await itemsOf(type, ids, link)).filter((item) => item.before?.id === target?.id).map(({ id }) => id)
  const restored = (/** @type {string} */ id) => linkedResource(type, id, link, before.get(id) ?? null)
  const failures = await performAll(ids, (id) => ({ op: "update", data: restored(id) }), select)
  for (const reason of failures.values()) throw new Error(reason)
  const current = await itemsOf(type, ids, link)
  const kept = items.length - current.filter((item) => item.before?.id === before.get(item.id)?.id).length
  if (kept > 0) {
    const what = items.length === 1 ? items[0].name : countedOf(type, kept)
    const other = `${kept === 1 ? "has" : "have"} another ${labelOf(link.name).toLowerCase()}`
    announce(`${what} ${other} meanwhile, which stays.`, { isError: true })
  } else announce("Undone.")
  await refresh()
}
