/** Tables: columns, and rows that are kept by their resource. */

import { isSame, linkedTo } from "./api.js"
import { h, show } from "./dom.js"
import { NONE, number } from "./texts.js"
import { countedLinks, links, nameOf, typeOf } from "./types.js"
import { shown } from "./values.js"

/** The rows of one page of a collection. */
export class Table {
  /** By the ids of the resources. @type {Map<string, { row: HTMLTableRowElement, resource: Resource }>} */
  #rows = new Map()
  #body = h("tbody", { role: "rowgroup" })

  /** @param {Type} type @param {Column[]} columns */
  constructor(type, columns) {
    this.columns = columns
    const heads = columns.map(({ label, kind, head }) => {
      if (head) return head
      return label ? h("th", { role: "columnheader", scope: "col" }, label) : h("td", { role: "cell", class: kind })
    })
    const head = h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...heads))
    const table = h("table", { role: "table", "aria-label": type.plural }, head, this.#body)
    this.element = h("div", { class: "table" }, table)
  }

  /** The ids of the resources that are shown. */
  get ids() {
    return [...this.#rows.keys()]
  }

  /**
   * Show the resources of a document; rows of those that were shown before stay, with their focus.
   * @param {JsonDocument} document
   */
  show(document) {
    const focused = globalThis.document.activeElement
    const kept = this.#rows
    this.#rows = new Map()
    for (const resource of document.data) this.#set(resource, document, kept.get(resource.id)?.row)
    const rows = [...this.#rows.values()].map(({ row }) => row)
    for (const row of this.#body.querySelectorAll("tr")) if (!rows.includes(row)) row.remove()
    const there = this.#body.children
    for (const [index, row] of rows.entries()) if (row !== there[index]) this.#body.insertBefore(row, there[index])
    if (focused instanceof HTMLElement && this.#body.contains(focused)) focused.focus()
  }

  /** Show what has become of resources that are shown, and let their rows light up. @param {JsonDocument} document */
  update(document) {
    for (const resource of document.data) {
      const row = this.#rows.get(resource.id)?.row
      const before = row?.textContent
      row?.classList.remove("flash")
      if (row) this.#set(resource, document, row).classList.toggle("flash", before !== row.textContent)
    }
  }

  /** Show a new resource above all others, and focus it. @param {JsonDocument} document that has it alone */
  insert(document) {
    const [resource] = document.data
    if (!this.#rows.has(resource.id)) this.#body.prepend(this.#set(resource, document))
    const link = this.#rows.get(resource.id)?.row.querySelector("a")
    link?.scrollIntoView({ block: "center" })
    link?.focus()
  }

  /**
   * Strike out what was deleted; return the ids of the resources that show others that have changed.
   * @param {Change[]} changes
   */
  affected(changes) {
    return [...this.#rows.values()].flatMap(({ resource, row }) => {
      const shown = [resource, ...linkedTo(resource)]
      const isGone = changes.some((change) => change.op === "remove" && isSame(resource, change))
      if (!isGone) return changes.some((change) => shown.some((other) => isSame(other, change))) ? resource.id : []
      this.#rows.delete(resource.id)
      row.classList.add("deleted")
      row.title = "Deleted meanwhile"
      for (const box of row.querySelectorAll("input")) box.disabled = true
      return []
    })
  }

  /**
   * Show a resource in its row, and return that.
   * @param {Resource} resource @param {JsonDocument} document @param {HTMLTableRowElement} [row]
   */
  #set(resource, document, row = h("tr", { role: "row" })) {
    const cells = this.columns.map(({ label, kind, cell }) => {
      return h("td", { role: "cell", "data-label": label, class: kind }, cell(resource, document.included ?? []))
    })
    show(row, ...cells)
    this.#rows.set(resource.id, { row, resource })
    return row
  }
}

/**
 * Return the columns of a type: what people know a resource by, what it is linked to, and its attributes, except what
 * is part of another or copied from a linked resource.
 * @param {Type} type @param {string} [hidden] a type to which no links are shown @returns {Column[]}
 */
export function columnsOf(type, hidden) {
  const { display } = type
  const isShown = (/** @type {Attribute} */ { name, copiedFrom }) => !copiedFrom && !display?.parts.includes(name)
  const own = type.attributes.filter((attribute) => isShown(attribute) && (attribute !== display || !type.writable))
  const toOne = links(type, false).filter((link) => !link.types.includes(hidden ?? ""))
  const linked = toOne.map((link) => columnOfLink(type, link))
  const attributes = own.map((attribute) => columnOf(type, attribute))
  if (!type.writable) return [...attributes, ...linked, ...type.authorship.map((fact) => columnOf(type, fact))]
  const heading = {
    ...(display ? columnOf(type, display) : { name: "id", label: "ID", sort: "id" }),
    cell: (/** @type {Resource} */ resource) => linkOf(resource),
    kind: "name",
  }
  return [heading, ...linked, ...countedLinks(type).map((link) => columnOfCount(type, link)), ...attributes]
}

/** @param {Type} type @param {Relationship} link @returns {Column} */
function columnOfCount(type, { name, label }) {
  const cell = (/** @type {Resource} */ { id, relationships }) => {
    const count = relationships?.[name]?.meta?.count
    return count ? h("a", { href: `#${type.path}/${id}/${name}` }, number(count)) : number(count ?? 0)
  }
  return { name, label, kind: "integer", cell }
}

/** @param {Type} type @param {Attribute} attribute @returns {Column} */
function columnOf(type, attribute) {
  const { name, label, kind, nullable } = attribute
  const cell = (/** @type {Resource} */ resource) => {
    const value = resource.attributes[name]
    // The registry itself leaves out a time only of what has not ended.
    return !value && kind === "time" && !type.writable ? "now" : shown(attribute, value)
  }
  return { name, label, sort: type.sort.includes(name) ? name : undefined, blank: nullable ? name : "", kind, cell }
}

/** @param {Type} type @param {Relationship} link @returns {Column} */
function columnOfLink(type, link) {
  const { name, label, target } = link
  const { display } = typeOf(target)
  const sort = display ? `${name}.${display.name}` : name
  /** @type {Column["cell"]} */
  const cell = (resource, included) => linkTo(type, link, resource, included)
  return { name, label, sort: type.sort.includes(sort) ? sort : undefined, blank: name, kind: "link", cell }
}

/**
 * Return a link to the resource of a to-one relationship.
 * @param {Type} type @param {Relationship} link @param {Resource} resource @param {Resource[]} included
 */
export function linkTo(type, link, resource, included) {
  const linked = /** @type {Identifier | null} */ (resource.relationships?.[link.name]?.data ?? null)
  // A period keeps the name that a linked resource had when it ended.
  const copy = type.attributes.find((attribute) => attribute.copiedFrom === link.name)
  const copied = copy && resource.attributes[copy.name]
  if (!linked) return copied ?? h("span", { class: "empty" }, NONE)
  return linkOf(linked, included, copied)
}

/**
 * Return a link to the card of a resource.
 * @param {Identifier} resource @param {Resource[]} [included] those that were read along, which have its name
 * @param {string | null} [name] another name
 */
export function linkOf(resource, included = [], name) {
  const type = typeOf(resource.type)
  const text = name ?? nameOf(type, included.find((other) => isSame(other, resource)) ?? resource)
  return h("a", { href: `#${type.path}/${resource.id}` }, h("bdi", {}, text))
}
