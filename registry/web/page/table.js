/** Tables: columns, and rows that are kept by their resource. */

import { isSame, linkedTo } from "./api.js"
import { h, show } from "./dom.js"
import { texts } from "./texts.js"
import { countedLinks, links, nameOf, typeOf } from "./types.js"
import { shown } from "./values.js"

/** @import { Document, Identifier, Resource } from "./api.js" */
/** @import { Child } from "./dom.js" */
/** @import { Change } from "./feed.js" */
/** @import { Attribute, Relationship, Type } from "./types.js" */
/**
 * sort: the name to sort by, if any. blank: the name of the filter for what has no value; "" if all have one. kind: a
 * class. cell: what shows a resource of a document with these included ones.
 * @typedef {{
 *   name: string, label: string, sort?: string, blank?: string, kind?: string,
 *   cell: (resource: Resource, included: Resource[]) => Child,
 * }} Column
 */

/** The rows of one page of a collection. */
export class Table {
  /** @type {Map<string, { row: HTMLTableRowElement, resource: Resource }>} */
  #rows = new Map()
  #body = h("tbody", { role: "rowgroup" })

  /**
   * @param {Type} type
   * @param {Column[]} columns
   * @param {(column: Column) => HTMLElement} head returns the heading of a column
   */
  constructor(type, columns, head) {
    this.type = type
    this.columns = columns
    const heads = h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...columns.map(head)))
    const table = h("table", { role: "table", "aria-label": type.plural }, heads, this.#body)
    this.element = h("div", { class: "table" }, table)
  }

  /** The resources that are shown, in their order. */
  get resources() {
    const order = [...this.#body.children]
    const rows = [...this.#rows.values()]
    return rows.sort((row, other) => order.indexOf(row.row) - order.indexOf(other.row)).map(({ resource }) => resource)
  }

  /** @param {string} id */
  has = (id) => this.#rows.has(id)

  /**
   * Show the resources of a document; rows of those that were shown before stay, with their focus.
   * @param {Document} document
   */
  show(document) {
    const focused = document.data.length > 0 ? globalThis.document.activeElement : null
    const kept = new Map(this.#rows)
    this.#rows.clear()
    for (const resource of document.data) {
      const known = kept.get(resource.id)
      if (known) this.#rows.set(resource.id, known)
      this.#update(resource, document)
    }
    const rows = [...this.#rows.values()].map(({ row }) => row)
    for (const row of [...this.#body.children]) if (!rows.includes(/** @type {any} */ (row))) row.remove()
    for (const [index, row] of rows.entries()) {
      const there = this.#body.children[index]
      if (there !== row) this.#body.insertBefore(row, there ?? null)
    }
    if (focused?.isConnected && focused instanceof HTMLElement) focused.focus()
  }

  /** Show what has become of resources that are shown, and let their rows light up. @param {Document} document */
  update(document) {
    for (const resource of document.data) if (this.has(resource.id)) this.#update(resource, document, true)
  }

  /** Show a new resource above all others, and focus it. @param {Document} document that has it alone */
  insert(document) {
    const [resource] = document.data
    if (!this.has(resource.id)) {
      this.#update(resource, document)
      this.#body.prepend(/** @type {HTMLElement} */ (this.row(resource.id)))
    }
    const link = this.row(resource.id)?.querySelector("a")
    link?.scrollIntoView({ block: "center" })
    link?.focus()
  }

  /** Return the row of a resource. @param {string} id */
  row = (id) => this.#rows.get(id)?.row

  /**
   * Strike out what was deleted; return the ids of the resources that show others that have changed.
   * @param {Change[]} changes
   */
  affected(changes) {
    return changes.flatMap((change) => {
      const shown = [...this.#rows.values()].filter(({ resource, row }) => {
        const isOwn = isSame(resource, change)
        const isGone = isOwn && change.op === "remove"
        if (isGone) this.#strike(row, change.id)
        return !isGone && (isOwn || linkedTo(resource).some((linked) => isSame(linked, change)))
      })
      return shown.map(({ resource }) => resource.id)
    })
  }

  /** @param {HTMLTableRowElement} row @param {string} id */
  #strike(row, id) {
    row.classList.add("deleted")
    row.title = texts.deleted
    this.#rows.delete(id)
    for (const box of row.querySelectorAll("input")) box.disabled = true
  }

  /** @param {Resource} resource @param {Document} document @param {boolean} [flashes] whether its row lights up */
  #update(resource, document, flashes = false) {
    const cells = this.columns.map((column) => {
      const content = column.cell(resource, document.included ?? [])
      return h("td", { role: "cell", "data-label": column.label, class: column.kind }, content)
    })
    const row = this.#rows.get(resource.id)?.row ?? h("tr", { role: "row" })
    row.classList.remove("flash")
    const before = row.textContent
    show(row, ...cells)
    if (flashes && before !== row.textContent) row.classList.add("flash")
    this.#rows.set(resource.id, { row, resource })
  }
}

/** Return a heading without any function. @param {Column} column */
export const plainHead = ({ label, kind }) =>
  label ? h("th", { role: "columnheader", scope: "col" }, label) : h("td", { role: "cell", class: kind })

/**
 * Return the columns of a type: what people know a resource by, what it is linked to, and its attributes, except what
 * is part of another or copied from a linked resource.
 * @param {Type} type
 * @param {string} [hidden] a type to which no links are shown
 * @returns {Column[]}
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
    ...(display ? columnOf(type, display) : { name: "id", label: texts.id, sort: "id" }),
    cell: (/** @type {Resource} */ resource) => linkOf(resource),
    kind: "name",
  }
  return [heading, ...linked, ...countedLinks(type).map((link) => columnOfCount(type, link)), ...attributes]
}

/** @param {Type} type @param {Relationship} link @returns {Column} */
function columnOfCount(type, { name, label }) {
  const cell = (/** @type {Resource} */ { id, relationships }) => {
    const count = relationships?.[name]?.meta?.count
    return count ? h("a", { href: `#${type.path}/${id}/${name}` }, texts.number(count)) : texts.number(count ?? 0)
  }
  return { name, label, kind: "integer", cell }
}

/** @param {Type} type @param {Attribute} attribute @returns {Column} */
function columnOf(type, attribute) {
  const { name, label, kind, nullable } = attribute
  const cell = (/** @type {Resource} */ resource) => {
    const value = resource.attributes[name]
    // The registry itself leaves out a time only of what has not ended.
    return !value && kind === "time" && !type.writable ? texts.lasting : shown(attribute, value)
  }
  return { name, label, sort: type.sort.includes(name) ? name : undefined, blank: nullable ? name : "", kind, cell }
}

/** @param {Type} type @param {Relationship} link @returns {Column} */
function columnOfLink(type, link) {
  const { name, label, target } = link
  const { display } = typeOf(target)
  const sort = display ? `${name}.${display.name}` : name
  const cell = (/** @type {Resource} */ resource, /** @type {Resource[]} */ included) =>
    linkTo(type, link, resource, included)
  return { name, label, sort: type.sort.includes(sort) ? sort : undefined, blank: name, kind: "link", cell }
}

/**
 * Return a link to the resource of a to-one relationship.
 * @param {Type} type
 * @param {Relationship} link
 * @param {Resource} resource
 * @param {Resource[]} included
 */
export function linkTo(type, link, resource, included) {
  const linked = /** @type {Identifier | null} */ (resource.relationships?.[link.name]?.data ?? null)
  // A period keeps the name that a linked resource had when it ended.
  const copy = type.attributes.find((attribute) => attribute.copiedFrom === link.name)
  const copied = copy && resource.attributes[copy.name]
  if (!linked) return copied ?? h("span", { class: "empty" }, texts.none)
  return linkOf(linked, included, copied)
}

/**
 * Return a link to the card of a resource.
 * @param {Identifier} resource
 * @param {Resource[]} [included] those that were read along, which have its name
 * @param {string | null} [name] another name
 */
function linkOf(resource, included = [], name) {
  const type = typeOf(resource.type)
  const text = name ?? nameOf(type, included.find((other) => isSame(other, resource)) ?? resource)
  return h("a", { href: `#${type.path}/${resource.id}` }, h("bdi", {}, text))
}
