/** The revisions of a resource: who has changed which value, and when. */

import { api } from "./api.js"
import { h, show } from "./dom.js"
import { itemsOf } from "./operations.js"
import { address } from "./router.js"
import { linkOf } from "./table.js"
import { NONE } from "./texts.js"
import { labelOf, links, typeOf } from "./types.js"
import { shown } from "./values.js"

const SHOWN = 20

/** @type {Record<string, string>} */
const ACTIONS = { created: "Created", updated: "Changed", deleted: "Deleted" }

/**
 * Return the newest revisions of a resource, as a part of its card.
 * @param {Type} type @param {string} path of the resource @param {Relationship} link @param {AbortSignal} signal
 */
export function timeline(type, path, link, signal) {
  const list = h("ol", { class: "timeline" })
  const more = h("span", { class: "more" })
  const toOne = links(type, false)
  const [time] = typeOf("revision").attributes.filter(({ name }) => name === "at")

  /** What people call linked resources, by type and id; those that are gone have none. @type {Map<string, string>} */
  const names = new Map()

  /** Read what people call the resources that revisions name by their ids. @param {Resource[]} revisions */
  const readNames = async (revisions) => {
    for (const { name, target } of toOne) {
      const values = revisions.flatMap(({ attributes: { before, after } }) => [before[name], after[name]])
      const ids = new Set(values.flatMap((value) => value?.id ?? []))
      for (const item of await itemsOf(typeOf(target), [...ids])) names.set(`${target} ${item.id}`, item.name)
    }
  }

  /** @param {string} name @param {any} value @returns {Child} */
  const valueOf = (name, value) => {
    const { target } = toOne.find((other) => other.name === name) ?? {}
    if (target && value) return linkOf({ type: target, id: value.id }, [], names.get(`${target} ${value.id}`))
    const attribute = type.attributes.find((other) => other.name === name)
    return attribute ? shown(attribute, value) : String(value ?? NONE)
  }

  /** @param {Resource} revision */
  const itemOf = ({ attributes: { at, author, action, before, after } }) => {
    const changes = Object.keys({ ...before, ...after }).flatMap((name) => {
      const [old, now] = [before, after].map((values) => valueOf(name, values[name]))
      const change = action === "updated" ? [old, " → ", now] : [name in after ? now : old]
      return [h("dt", {}, labelOf(name)), h("dd", {}, ...change)]
    })
    const by = author && h("bdi", {}, ` by ${author}`)
    return h("li", {}, h("p", {}, ACTIONS[action] ?? action, " ", shown(time, at), by), h("dl", {}, ...changes))
  }

  const load = async () => {
    const { document } = await api.get(`${path}/${link.name}`, { sort: "-at", "page[size]": String(SHOWN) }, signal)
    await readNames(document.data)
    show(list, ...document.data.map(itemOf))
    const all = address(`${path}/${link.name}`, new URLSearchParams({ sort: "-at" }))
    show(more, document.meta.page?.after && h("a", { href: all }, "All changes"))
  }
  return { element: h("section", {}, h("header", {}, h("h2", {}, link.label), more), list), load }
}
