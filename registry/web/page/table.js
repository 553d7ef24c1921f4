/** Tables: pages of a collection that can be sorted and filtered, and follow what others change. */

import { isSame, linkedTo } from "./api.js"
import { announceFailure, button, h } from "./dom.js"
import { copyOf, fieldsWithNames, nameOf } from "./description.js"
import { chips, openFilter } from "./filter.js"
import { texts } from "./texts.js"
import { shown } from "./values.js"

/** @import { Document, Identifier, Resource } from "./api.js" */
/** @import { App } from "./app.js" */
/** @import { Attribute, Relationship, Type } from "./description.js" */
/** @import { Change } from "./feed.js" */
/** @typedef {{ name: string, label: string, sort: string, attribute?: Attribute, link?: Relationship }} Column */

const PAGE_SIZE = 50
const COLLECT_MS = 150
const REVOKE_MS = 60_000
const MAX_NEWER = 50

/** A page of a collection, with live rows. */
export class Table {
  /** The rows by id. @type {Map<string, { row: HTMLTableRowElement, resource: Resource }>} */
  #rows = new Map()

  /** Ids of the resources to read again. @type {Set<string>} */
  #changed = new Set()

  /** Ids of new resources that are not shown. @type {Set<string>} */
  #added = new Set()

  /**
   * @param {App} app
   * @param {Type} type
   * @param {string} path of the collection
   * @param {URLSearchParams} state sort, filters and page, as in the address
   * @param {AbortSignal} signal ends the table
   * @param {{ hidden?: string, size?: number, actions?: (resource: Resource) => Node }} [options]
   *   hidden: the type of the card that the table is on, to which all rows lead
   */
  constructor(app, type, path, state, signal, options = {}) {
    this.app = app
    this.type = type
    this.path = path
    this.state = state
    this.signal = signal
    this.options = options
    this.columns = columnsOf(app, type, options.hidden)
    const names = [...type.attributes, ...type.authorship].map((one) => one.name)
    const fields = names.filter((name) => this.columns.some((one) => one.name === name))
    const copies = type.attributes.filter((one) => one.copiedFrom).map((one) => one.name)
    /** Who is read along, in each request. */
    this.query = fieldsWithNames(app, type, [...fields, ...copies])
    const showNewest = () => this.#navigate({ sort: "-id" })
    this.newer = button("", showNewest, { class: "newer", hidden: true })
    this.body = h("tbody", { role: "rowgroup" })
    this.region = h("div", { class: "table" })
  }

  /** Read the page; return whether it has resources. Raises Failure, AbortError. */
  async load() {
    const size = String(this.options.size ?? PAGE_SIZE)
    const query = { ...this.query, ...Object.fromEntries(this.state), "page[size]": size }
    const { document } = await this.app.api.get(this.path, query, this.signal)
    this.page = document.meta.page
    for (const resource of document.data) this.body.append(this.#newRow(resource, document))
    const isEmpty = document.data.length === 0
    const head = h("tr", { role: "row" }, ...this.columns.map((one) => this.#heading(one)))
    if (this.options.actions) head.append(h("td", { role: "cell" }))
    const header = h("thead", { role: "rowgroup" }, head)
    const attributes = { role: "table", "aria-label": this.type.plural }
    const table = h(
      "table",
      { ...attributes, class: this.options.size ? "plain" : null },
      header,
      this.body,
    )
    this.region.replaceChildren(isEmpty ? "" : table)
    return !isEmpty
  }

  /** Return the number of resources on all pages. Raises Failure, AbortError. */
  async count() {
    return countOf(this.app, this.path, this.#countQuery(), this.signal)
  }

  /**
   * Return the filters, which read only ids.
   * @returns {Record<string, string>}
   */
  #countQuery() {
    const filters = [...this.state].filter(([name]) => name.startsWith("filter"))
    return { ...Object.fromEntries(filters), [`fields[${this.type.name}]`]: "" }
  }

  /**
   * Read again the rows that show what others have changed.
   * @param {Change[]} changes
   */
  update(changes) {
    for (const change of changes) {
      const { op, type, id } = change
      for (const { row, resource } of this.#rows.values()) {
        const isOwn = isSame(resource, change)
        if (isOwn && op === "remove") this.#strike(row, id)
        else if (isOwn || linkedTo(resource).some((one) => isSame(one, change)))
          this.#changed.add(resource.id)
      }
      const isShown = type !== this.type.name || this.#rows.has(id)
      if (op === "add" && !isShown && this.#added.size <= MAX_NEWER) this.#added.add(id)
      if (op === "remove" && type === this.type.name) this.#added.delete(id)
    }
    setTimeout(() => {
      this.#reload().catch(() => {})
      this.#showAdded().catch(() => {})
    }, COLLECT_MS)
  }

  /**
   * Return whether a row is a resource.
   * @param {Identifier} resource
   */
  shows({ type, id }) {
    return type === this.type.name && this.#rows.has(id)
  }

  async #reload() {
    const ids = [...this.#changed]
    this.#changed.clear()
    if (ids.length === 0 || this.signal.aborted) return
    const query = {
      ...this.query,
      "filter[id][in]": ids.join(","),
      "page[size]": String(ids.length),
    }
    const { document } = await this.app.api.get(this.type.path, query, this.signal)
    for (const resource of /** @type {Resource[]} */ (document.data)) {
      this.#rows.get(resource.id)?.row.replaceWith(this.#newRow(resource, document, "flash"))
    }
  }

  /** Offer to show new resources, of those that the collection and its filters have. */
  async #showAdded() {
    const ids = [...this.#added]
    if (ids.length > 0 && !this.signal.aborted) {
      const query = { ...this.#countQuery(), "filter[id][in]": ids.join(","), "page[size]": "100" }
      const { document } = await this.app.api.get(this.path, query, this.signal)
      const found = new Set(document.data.map((/** @type {Resource} */ one) => one.id))
      for (const id of ids) if (!found.has(id)) this.#added.delete(id)
    }
    const count = this.#added.size
    this.newer.hidden = count === 0
    this.newer.textContent = texts.newer(Math.min(count, MAX_NEWER), count > MAX_NEWER)
  }

  /**
   * @param {HTMLTableRowElement} row
   * @param {string} id
   */
  #strike(row, id) {
    row.classList.add("deleted")
    row.title = texts.deleted
    this.#rows.delete(id)
  }

  /**
   * @param {Resource} resource
   * @param {Document} document that has the linked resources
   * @param {string} [kind]
   */
  #newRow(resource, document, kind) {
    const cells = this.columns.map((column, index) => {
      const content = cell(this.app, this.type, column, resource, document.included ?? [])
      const href = `#${this.type.path}/${resource.id}`
      const isHeading = index === 0 && !column.link
      const name = isHeading && this.type.writable ? h("a", { href }, content) : content
      return h("td", { role: "cell", "data-label": column.label }, name)
    })
    if (this.options.actions) {
      cells.push(h("td", { role: "cell", class: "actions" }, this.options.actions(resource)))
    }
    const row = h("tr", { role: "row", class: kind }, ...cells)
    this.#rows.set(resource.id, { row, resource })
    return row
  }

  /** @param {Column} column */
  #heading(column) {
    const sort = this.state.get("sort") ?? ""
    const order = { [column.sort]: "ascending", [`-${column.sort}`]: "descending" }[sort]
    if (!this.type.canSort(column.sort) || this.options.size) {
      return h("th", { role: "columnheader", scope: "col" }, column.label)
    }
    const next = order === "ascending" ? `-${column.sort}` : column.sort
    const arrow = order && (order === "ascending" ? "↑" : "↓")
    const mark = h("span", { "aria-hidden": "true", class: "order" }, arrow)
    const control = button(column.label, () => this.#navigate({ sort: next }), { class: "sort" })
    control.append(mark)
    const attributes = { role: "columnheader", scope: "col", "aria-sort": order ?? "none" }
    return h("th", attributes, control, this.#filterButton(column))
  }

  /** @param {Column} column */
  #filterButton(column) {
    const filter = this.type.filters.find(
      (one) => one.name === (column.link ? column.sort : column.name),
    )
    if (!filter) return null
    const label = texts.filterBy(column.label)
    return button("", () => this.chooseFilter(filter.name), {
      "aria-label": label,
      title: label,
      class: "funnel",
    })
  }

  /**
   * Return another state, at its first page unless it names one.
   * @param {Record<string, string | null>} changes
   */
  #changedState(changes) {
    const state = new URLSearchParams(this.state)
    const pages = { "page[after]": null, "page[before]": null }
    for (const [name, value] of Object.entries({ ...pages, ...changes })) {
      if (value === null) state.delete(name)
      else state.set(name, value)
    }
    return state
  }

  /** @param {Record<string, string | null>} changes */
  #navigate(changes) {
    this.app.navigate(this.path, this.#changedState(changes))
  }

  /** Return what leads to the previous and the next page. */
  pages() {
    const link = (
      /** @type {string} */ label,
      /** @type {string} */ name,
      /** @type {string | null} */ cursor,
    ) => {
      if (!cursor) return h("span", { class: "disabled" }, label)
      const href = this.app.address(this.path, this.#changedState({ [name]: cursor }))
      return h("a", { href, class: "button" }, label)
    }
    const { before, after } = this.page ?? {}
    if (!before && !after) return null
    return h(
      "nav",
      { class: "pages", "aria-label": texts.pages },
      link(texts.previous, "page[before]", before),
      link(texts.next, "page[after]", after),
    )
  }

  /** Return the filters in force. */
  chips() {
    return chips(this.type, this.state, (name) => this.#navigate({ [name]: null }))
  }

  /**
   * Ask for a filter.
   * @param {string} [field]
   */
  chooseFilter(field) {
    openFilter(this.type, field, (name, value) => this.#navigate({ [name]: value }))
  }
}

/**
 * Return the number of resources in a collection. Raises Failure, AbortError.
 * @param {App} app
 * @param {string} path
 * @param {Record<string, string>} query
 * @param {AbortSignal} signal
 */
export async function countOf(app, path, query, signal) {
  const one = { "page[number]": "1", "page[size]": "1" }
  const { document } = await app.api.get(path, { ...query, ...one }, signal)
  return /** @type {number} */ (document.meta.total)
}

/**
 * Return the columns of a type. Names that are put together of others, and names that are copied
 * from linked resources, have none of their own.
 * @param {App} app
 * @param {Type} type
 * @param {string} [hidden] a type to which no links are shown
 * @returns {Column[]}
 */
function columnsOf(app, type, hidden) {
  const isShown = (/** @type {Attribute} */ one) =>
    !one.copiedFrom && !(one === type.display && one.readOnly)
  /** @type {(attribute: Attribute, sort: string) => Column} */
  const columnOf = (attribute, sort) => ({ ...attribute, sort, attribute })
  const columns = type.attributes.filter(isShown).map((one) => columnOf(one, one.name))
  for (const link of app.links(type, false)) {
    if (link.target === hidden) continue
    const { display } = app.typeOf(link.target)
    const sort = display ? `${link.name}.${display.name}` : link.name
    columns.push({ name: link.name, label: link.label, sort, link })
  }
  if (type.writable) return columns
  // What the registry writes itself tells who has caused it.
  return [...columns, ...type.authorship.map((one) => columnOf(one, ""))]
}

/**
 * Return the content of a cell.
 * @param {App} app
 * @param {Type} type
 * @param {Column} column
 * @param {Resource} resource
 * @param {Resource[]} included
 */
function cell(app, type, { attribute, link }, resource, included) {
  if (attribute) {
    const value = resource.attributes[attribute.name]
    // The registry itself leaves out a time only of what has not ended.
    const isLasting = !value && attribute.kind === "time" && !type.writable
    return isLasting ? texts.lasting : shown(attribute, value)
  }
  return link ? linkTo(app, type, link, resource, included) : ""
}

/**
 * Return a link to the resource of a to-one relationship.
 * @param {App} app
 * @param {Type} type
 * @param {Relationship} link
 * @param {Resource} resource
 * @param {Resource[]} included
 */
export function linkTo(app, type, link, resource, included) {
  const linked = /** @type {Resource | null} */ (resource.relationships?.[link.name]?.data ?? null)
  const target = app.typeOf(link.target)
  const copy = copyOf(type, link)
  const copied = copy && resource.attributes[copy.name]
  if (!linked) return copied ?? h("span", { class: "empty" }, texts.none)
  const found = included.find((one) => isSame(one, linked))
  const name = copied ?? nameOf(target, found ?? linked)
  return h("a", { href: `#${target.path}/${linked.id}` }, h("bdi", {}, name))
}

/**
 * Download what a table shows, all pages, as CSV.
 * @param {App} app
 * @param {Table} table
 * @param {HTMLButtonElement} control
 */
export async function download(app, table, control) {
  try {
    const state = [...table.state].filter(([name]) => !name.startsWith("page"))
    const query = { ...table.query, ...Object.fromEntries(state) }
    const response = await app.api.fetch("GET", table.path, {
      query,
      accept: "text/csv",
      seconds: 0,
    })
    const href = URL.createObjectURL(await receive(response, control))
    h("a", { href, download: `${table.path.split("/").at(-1)}.csv` }).click()
    setTimeout(() => URL.revokeObjectURL(href), REVOKE_MS)
  } catch (error) {
    announceFailure(error)
  }
  control.textContent = texts.download
}

/**
 * Return the body of a response; the control shows how much has arrived.
 * @param {Response} response
 * @param {HTMLButtonElement} control
 */
async function receive(response, control) {
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader()
  const parts = []
  for (let size = 0; ;) {
    const { done, value } = await reader.read()
    if (done) return new Blob(parts, { type: "text/csv" })
    parts.push(value)
    size += value.length
    control.textContent = texts.downloading(size)
  }
}
