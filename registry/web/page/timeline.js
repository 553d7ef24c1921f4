/** The revisions of a resource: who has changed which value, and when. */

import { api } from "./api.js"
import { h, show } from "./dom.js"
import { itemsOf } from "./operations.js"
import { address } from "./router.js"
import { linkOf } from "./table.js"
import { NONE } from "./texts.js"
import { links, typeOf } from "./types.js"
import { shown } from "./values.js"

/** @import { Resource } from "./api.js" */
/** @import { Child } from "./dom.js" */
/** @import { Relationship, Type } from "./types.js" */

const SHOWN = 20

/** @type {Record<string, string>} */
const ACTIONS = { created: "Created", updated: "Changed", deleted: "Deleted" }

/** The newest revisions of a resource. */
export class Timeline {
  #list = h("ol", { class: "timeline" })
  #more = h("span", { class: "more" })
  /** Of linked resources, by type and id; those that are gone have none. @type {Map<string, string>} */
  #names = new Map()

  /** @param {Type} type @param {string} path of the resource @param {Relationship} link @param {AbortSignal} signal */
  constructor(type, path, link, signal) {
    this.type = type
    this.path = `${path}/${link.name}`
    this.signal = signal
    this.element = h("section", {}, h("header", {}, h("h2", {}, link.label), this.#more), this.#list)
  }

  async load() {
    const { document } = await api.get(this.path, { sort: "-at", "page[size]": String(SHOWN) }, this.signal)
    await this.#readNames(document.data)
    show(this.#list, ...document.data.map((/** @type {Resource} */ revision) => this.#item(revision)))
    const state = new URLSearchParams({ sort: "-at" })
    show(this.#more, document.meta.page?.after && h("a", { href: address(this.path, state) }, "All changes"))
  }

  /** Read what people call the resources that revisions name by their ids. @param {Resource[]} revisions */
  async #readNames(revisions) {
    for (const { name, target } of links(this.type, false)) {
      const values = revisions.flatMap(({ attributes: { before, after } }) => [before[name], after[name]])
      const ids = new Set(values.flatMap((value) => value?.id ?? []))
      for (const item of await itemsOf(typeOf(target), [...ids])) this.#names.set(`${target} ${item.id}`, item.name)
    }
  }

  /** @param {Resource} revision */
  #item({ attributes: { at, author, action, before, after } }) {
    const [time] = typeOf("revision").attributes.filter(({ name }) => name === "at")
    const by = author && h("bdi", {}, ` by ${author}`)
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    const changes = names.map((name) => {
      const [old, now] = [before, after].map((values) => this.#value(name, values[name]))
      const isUpdate = action === "updated"
      return [
        h("dt", {}, this.#labelOf(name)),
        h("dd", {}, ...(isUpdate ? [old, " → ", now] : [name in after ? now : old])),
      ]
    })
    const heading = h("p", {}, ACTIONS[action] ?? action, " ", shown(time, at), by)
    return h("li", {}, heading, h("dl", {}, ...changes.flat()))
  }

  /** @param {string} name */
  #labelOf(name) {
    return [...this.type.attributes, ...this.type.relationships].find((other) => other.name === name)?.label ?? name
  }

  /** @param {string} name @param {any} value @returns {Child} */
  #value(name, value) {
    const link = links(this.type, false).find((other) => other.name === name)
    if (link && value) {
      const known = this.#names.get(`${link.target} ${value.id}`)
      return linkOf({ type: link.target, id: value.id }, [], known)
    }
    const attribute = this.type.attributes.find((other) => other.name === name)
    return attribute ? shown(attribute, value) : String(value ?? NONE)
  }
}
