/** The view of a collection: its pages, sorted and filtered as its address says, which follow what others change. */

import { api, countOf, loaded, partsOf } from "./api.js"
import { announceFailure } from "./dialogs.js"
import { button, buttons, h, show } from "./dom.js"
import { askForFilter, chips } from "./filter.js"
import { inTurn, later } from "./reads.js"
import { address, navigate } from "./router.js"
import { Selection } from "./selection.js"
import { columnsOf, Table } from "./table.js"
import { texts } from "./texts.js"
import { countedLinks, countedOf, fieldsWithNames, mayWrite } from "./types.js"

/** @import { Document, Query, Resource } from "./api.js" */
/** @import { Change } from "./feed.js" */
/** @import { Column } from "./table.js" */
/** @import { Type } from "./types.js" */

const PAGE_SIZE = 50
const ROWS_MS = 150
const TOTALS_MS = 2_500
const REVOKE_MS = 60_000
const MAX_NEWER = 50

export class List {
  /** Ids of the resources to read again. @type {Set<string>} */
  #changed = new Set()
  /** Ids of new resources that are not shown. @type {Set<string>} */
  #added = new Set()
  #content = h("div")
  /** What can be done to every list. @type {HTMLElement[]} */
  #tools = []
  #actions = h("div", { class: "actions" })
  #newer = h("div", { role: "status" })
  #count = h("span", { class: "count" })

  /** Read the page, and later the count. Raises Failure, AbortError. */
  load = inTurn(() => this.#load())
  #readRows = later(() => this.#readChanged(), ROWS_MS)
  #readCounts = later(() => this.#readCounted(), TOTALS_MS)
  #readTotals = later(() => Promise.all([this.#showAdded(), this.#showCount()]), TOTALS_MS)

  /**
   * @param {Type} type
   * @param {string} path of the collection
   * @param {URLSearchParams} state sort, filters and page, as in the address
   * @param {AbortSignal} signal ends the view
   * @param {Type} [parent] the type of the resource that the collection belongs to
   */
  constructor(type, path, state, signal, parent) {
    this.type = type
    this.path = path
    this.state = state
    this.signal = signal
    this.title = type.plural
    const columns = columnsOf(type, parent?.name)
    const counts = countedLinks(type).map((link) => link.name)
    this.query = { ...fieldsWithNames(type), ...(counts.length > 0 ? { withCount: counts.join(",") } : {}) }
    this.filters = Object.fromEntries([...state].filter(([name]) => name.startsWith("filter")))
    this.mayAdd = !parent && mayWrite(type.name)
    const isSelectable = mayWrite(type.name)
    this.selection = new Selection(type, path, this.filters)
    this.sort = state.get("sort") ?? (type.writable ? columns[0].sort : "") ?? ""
    this.columns = columns
    const head = (/** @type {Column} */ column) => (column.label ? this.#heading(column) : this.selection.head())
    this.table = new Table(type, isSelectable ? [this.selection.column, ...columns] : columns, head)
    this.selection.table = this.table
    this.element = this.#frame(parent)
  }

  /** @param {Type} [parent] */
  #frame(parent) {
    const { type, path, state, selection } = this
    const up = path.split("/").slice(0, 3).join("/")
    const crumb = parent && h("p", { class: "crumb" }, h("a", { href: `#${up}` }, parent.label))
    const heading = h("h1", { tabindex: "-1" }, type.plural, " ", this.#count)
    const take = button(texts.download, () => this.#download(take))
    const filter = button(texts.filter, () => this.#chooseFilter())
    this.#tools = [this.#sortBox(), filter, take]
    const onRemove = (/** @type {string} */ name) => this.#navigate({ [name]: null })
    const parts = [h("header", {}, h("div", {}, crumb, heading), this.#actions), chips(type, state, onRemove)]
    return h("section", { class: "list" }, ...parts, this.#newer, selection.element, this.#content)
  }

  /** Return the buttons that add resources. */
  #additions() {
    const { type } = this
    const create = async () => {
      const { openCreation } = await loaded(import("./form.js"))
      openCreation(type, { onCreated: (created) => this.#showCreated(created) })
    }
    const bring = button(texts.import, () => bringFile(type))
    return this.mayAdd ? [bring, button(texts.add(type.label), create, { class: "primary" })] : []
  }

  /** @param {string} text */
  paste(text) {
    return mayWrite(this.type.name) ? this.selection.paste(text) : undefined
  }

  async #load() {
    const document = await this.#readPage()
    const { type } = this
    const isFiltered = Object.keys(this.filters).length > 0
    const isBlank = document.data.length === 0
    const additions = this.#additions()
    const offersAdditions = isBlank && !isFiltered && additions.length > 0
    show(this.#actions, ...this.#tools, ...(offersAdditions ? [] : additions))
    if (!isBlank) {
      this.table.show(document)
      show(this.#content, this.table.element, this.#pages(document.meta.page))
    } else {
      const help = h("p", {}, isFiltered ? texts.noMatch : texts.empty(type.plural))
      const more = offersAdditions ? [buttons(...additions), h("p", {}, texts.emptyHelp)] : []
      show(this.#content, h("div", { class: "blank" }, help, ...more))
    }
    this.selection.render()
    // A heavy filter may be too much to count, and the table does not need it.
    if (document.meta.total === undefined) this.#showCount().catch(() => {})
    else this.#tellCount(document.meta.total)
  }

  /**
   * Read the page that the address names. MongoDB sorts what has no value first, people expect it last: so ascending
   * pages are put together of those with a value and those without, by their numbers.
   * @returns {Promise<Document>}
   */
  async #readPage() {
    const blank = this.columns.find((column) => column.sort === this.sort)?.blank
    const page = Object.fromEntries([...this.state].filter(([name]) => name.startsWith("page")))
    const size = { "page[size]": String(PAGE_SIZE) }
    const query = { ...this.query, ...this.filters, ...this.#order, ...size }
    if (!blank || `filter[${blank}][null]` in this.filters) {
      return (await api.get(this.path, { ...query, ...page }, this.signal)).document
    }
    const number = Number(page["page[number]"] ?? 1)
    const read = async (/** @type {boolean} */ isBlank, /** @type {number} */ position) => {
      const part = { [`filter[${blank}][null]`]: String(isBlank), "page[number]": String(position) }
      return (await api.get(this.path, { ...query, ...part }, this.signal)).document
    }
    const [first, blanks] = await Promise.all([read(false, number), read(true, 1)])
    const start = (number - 1) * PAGE_SIZE + first.data.length - first.meta.total
    const rest = PAGE_SIZE - first.data.length
    const parts = [first]
    if (rest > 0 && start >= 0) {
      const position = Math.floor(start / PAGE_SIZE) + 1
      const from = start % PAGE_SIZE
      const positions = from + rest > PAGE_SIZE ? [position, position + 1] : [position]
      const pages = await Promise.all(positions.map((other) => (other === 1 ? blanks : read(true, other))))
      const data = pages.flatMap((part) => part.data).slice(from, from + rest)
      parts.push({ data, included: pages.flatMap((part) => part.included ?? []) })
    }
    const total = first.meta.total + blanks.meta.total
    const before = number > 1 ? String(number - 1) : null
    const after = number * PAGE_SIZE < total ? String(number + 1) : null
    return {
      data: parts.flatMap((part) => part.data),
      included: parts.flatMap((part) => part.included ?? []),
      meta: { total, page: { before, after, isNumbered: true } },
    }
  }

  /** @returns {Query} */
  get #order() {
    return this.sort ? { sort: this.sort } : {}
  }

  async #showCount() {
    this.#tellCount(await countOf(this.path, this.#idsOnly, this.signal))
  }

  /** @param {number} total */
  #tellCount(total) {
    this.#count.textContent = countedOf(this.type, total)
    this.selection.total = total
    this.selection.render()
  }

  /** The filters, for requests that read only ids. @returns {Query} */
  get #idsOnly() {
    return { ...this.filters, [`fields[${this.type.name}]`]: "" }
  }

  /** @param {Change[]} changes */
  update(changes) {
    for (const id of this.table.affected(changes)) this.#changed.add(id)
    for (const { op, type, id } of changes) {
      if (countedLinks(this.type).some((link) => link.target === type)) this.#readCounts()
      if (type !== this.type.name) continue
      if (op === "add" && !this.table.has(id) && this.#added.size <= MAX_NEWER) this.#added.add(id)
      if (op === "remove") this.#added.delete(id)
      if (op !== "update") this.#readTotals()
    }
    if (this.#changed.size > 0) this.#readRows()
  }

  async #readChanged() {
    const ids = [...this.#changed]
    this.#changed.clear()
    if (ids.length === 0 || this.signal.aborted) return
    const some = { "filter[id][in]": ids.join(","), "page[size]": String(ids.length) }
    const { document } = await api.get(this.type.path, { ...this.query, ...some }, this.signal)
    this.table.update(document)
    this.selection.render()
  }

  /** Read again the numbers of linked resources, which may have changed in any row. */
  async #readCounted() {
    for (const { id } of this.table.resources) this.#changed.add(id)
    await this.#readChanged()
  }

  /** Offer to show new resources, of those that the collection and its filters have. */
  async #showAdded() {
    const ids = [...this.#added].filter((id) => !this.table.has(id))
    const some = { "filter[id][in]": ids.join(","), "page[size]": "100" }
    const read = async () => (await api.get(this.path, { ...this.#idsOnly, ...some }, this.signal)).document.data
    const found = ids.length > 0 ? await read() : []
    this.#added = new Set(found.map((/** @type {Resource} */ { id }) => id))
    const count = this.#added.size
    const text = texts.newer(Math.min(count, MAX_NEWER), count > MAX_NEWER)
    show(this.#newer, count > 0 && button(text, () => this.#navigate({ sort: "-id" }), { class: "newer" }))
  }

  /** @param {Resource} created */
  async #showCreated({ id }) {
    await this.load()
    const query = { ...this.query, "filter[id]": id, "page[size]": "1" }
    const { document } = await api.get(this.type.path, query, this.signal)
    if (document.data.length > 0 && this.table.element.isConnected) this.table.insert(document)
  }

  /** @param {Column} column */
  #heading({ name, label, sort, kind }) {
    const attributes = { role: "columnheader", scope: "col", "data-label": label, class: kind }
    if (!sort) return h("th", attributes, label)
    const order = { [sort]: "ascending", [`-${sort}`]: "descending" }[this.sort]
    const next = order === "ascending" ? `-${sort}` : sort
    const mark = h("span", { "aria-hidden": "true", class: "order" }, order && (order === "ascending" ? "↑" : "↓"))
    const control = button(label, () => this.#navigate({ sort: next }), { class: "sort" })
    control.append(mark)
    const filter = this.type.filters.find((other) => other.name === (kind === "link" ? sort : name))
    const title = texts.filterBy(label)
    const funnel = { "aria-label": title, title, class: "funnel" }
    const choose = filter && button("", () => this.#chooseFilter(filter.name), funnel)
    return h("th", { ...attributes, "aria-sort": order ?? "none" }, control, choose)
  }

  /** Return what sorts where there is no room for headings. */
  #sortBox() {
    const options = this.columns.flatMap(({ sort, label }) => [
      ...(sort ? [h("option", { value: sort, selected: this.sort === sort }, `${label} ↑`)] : []),
      ...(sort ? [h("option", { value: `-${sort}`, selected: this.sort === `-${sort}` }, `${label} ↓`)] : []),
    ])
    const isListed = options.some((option) => option.selected)
    const other = isListed ? null : h("option", { value: this.sort, selected: true }, texts.otherSort)
    const change = () => this.#navigate({ sort: box.value })
    const box = h("select", { "aria-label": texts.sortBy, class: "sort-by", change }, other, ...options)
    return box
  }

  /** Return another state, at its first page unless it names one. @param {Record<string, string | null>} changes */
  #changedState(changes) {
    const state = new URLSearchParams(this.state)
    const pages = { "page[after]": null, "page[before]": null, "page[number]": null }
    for (const [name, value] of Object.entries({ ...pages, ...changes })) {
      if (value === null) state.delete(name)
      else state.set(name, value)
    }
    return state
  }

  /** @param {Record<string, string | null>} changes */
  #navigate(changes) {
    navigate(this.path, this.#changedState(changes))
  }

  /** @param {{ before: string | null, after: string | null, isNumbered?: boolean }} page */
  #pages({ before, after, isNumbered }) {
    if (!before && !after) return null
    const link = (/** @type {string} */ label, /** @type {string} */ name, /** @type {string | null} */ cursor) => {
      if (!cursor) return h("span", { class: "disabled" }, label)
      const state = this.#changedState({ [isNumbered ? "page[number]" : name]: cursor })
      return h("a", { href: address(this.path, state), class: "button" }, label)
    }
    const links = [link(texts.previous, "page[before]", before), link(texts.next, "page[after]", after)]
    return h("nav", { class: "pages", "aria-label": texts.pages }, ...links)
  }

  /** Ask for a filter. @param {string} [field] */
  async #chooseFilter(field) {
    const filter = await askForFilter(this.type, field)
    if (filter) this.#navigate(filter)
  }

  /** Download all pages as CSV; the button shows how much has arrived. @param {HTMLButtonElement} control */
  async #download(control) {
    try {
      const query = { ...this.query, ...this.filters, ...this.#order }
      const response = await api.fetch("GET", this.path, { query, accept: "text/csv", seconds: 0 })
      const parts = []
      let size = 0
      for await (const part of partsOf(response)) {
        parts.push(part)
        size += part.length
        control.textContent = texts.downloading(size)
      }
      saveFile(new Blob(parts, { type: "text/csv" }), `${this.path.split("/").at(-1)}.csv`)
    } catch (error) {
      announceFailure(error)
    }
    control.textContent = texts.download
  }
}

/** Give a file to the browser. @param {Blob} blob @param {string} name */
export function saveFile(blob, name) {
  const href = URL.createObjectURL(blob)
  h("a", { href, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(href), REVOKE_MS)
}

/** Open the dialog that imports a file; few visitors need its module. @param {Type} type @param {File} [file] */
export async function bringFile(type, file) {
  const { openImport } = await loaded(import("./import.js"))
  openImport(type, file)
}
