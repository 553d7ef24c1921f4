/** The view of a collection: its pages, sorted and filtered as its address says, which follow what others change. */

import { api, arrived, partsOf } from "./api.js"
import { button, buttons, h, show } from "./dom.js"
import { askForFilter, chips } from "./filter.js"
import { inTurn, later } from "./reads.js"
import { address, navigate } from "./router.js"
import { selectionOf } from "./selection.js"
import { columnsOf, Table } from "./table.js"
import { counted, number } from "./texts.js"
import { countedLinks, countedOf, fieldsWithNames, mayWrite } from "./types.js"

const PAGE_SIZE = 50
const ROWS_MS = 150
const TOTALS_MS = 2_500
const REVOKE_MS = 60_000

export class List {
  /** Ids of the resources to read again. @type {Set<string>} */
  #changed = new Set()
  /** How many resources were known when the page was read, without those that were deleted since. */
  #known = NaN
  #actions = h("div", { class: "actions" })
  #newer = h("div", { role: "status" })
  #count = h("span", { class: "count" })
  #content = h("div")

  /** Read the page, and later the count. Raises Failure, AbortError. */
  load = inTurn(() => this.#load())
  #readRows = later(() => this.#readChanged(), ROWS_MS)
  #readCounts = later(() => this.#readChanged(this.table.resources), TOTALS_MS)
  #readTotal = later(() => this.#showCount(), TOTALS_MS)

  /**
   * @param {Type} type @param {string} path of the collection
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
    this.filters = Object.fromEntries([...state].filter(([name]) => name.startsWith("filter")))
    const counts = countedLinks(type).map((link) => link.name)
    this.query = { ...fieldsWithNames(type), ...(counts.length > 0 ? { withCount: counts.join(",") } : {}) }
    this.columns = columnsOf(type, parent?.name)
    this.sort = state.get("sort") ?? (type.writable ? this.columns[0].sort : "") ?? ""
    const columns = this.columns.map((column) => ({ ...column, head: this.#heading(column) }))
    this.selection = selectionOf(type, path, this.filters)
    this.table = new Table(type, mayWrite(type.name) ? [this.selection.column, ...columns] : columns)
    this.selection.attach(this.table)
    const take = button("Download CSV", () => this.#download(take))
    this.tools = [this.#sortBox(), button("Filter", () => this.#chooseFilter()), take]
    const bring = button("Import CSV", () => bringFile(type))
    const create = button(`New ${type.label.toLowerCase()}`, () => this.#create(), { class: "primary" })
    this.additions = !parent && mayWrite(type.name) ? [bring, create] : []
    const up = path.split("/").slice(0, 3).join("/")
    const crumb = parent && h("p", { class: "crumb" }, h("a", { href: `#${up}` }, parent.label))
    const heading = h("h1", { tabindex: "-1" }, type.plural, " ", this.#count)
    const header = h("header", {}, h("div", {}, crumb, heading), this.#actions)
    const filters = chips(type, state, (name) => this.#navigate({ [name]: "" }))
    const parts = [header, filters, this.#newer, this.#content, this.selection.element]
    this.element = h("section", { class: "list" }, ...parts)
  }

  /** @param {string} text */
  paste(text) {
    return mayWrite(this.type.name) && this.selection.paste(text)
  }

  async #load() {
    const document = await this.#readPage()
    const isFiltered = Object.keys(this.filters).length > 0
    const isBlank = document.data.length === 0
    const isEmpty = isBlank && !isFiltered && this.additions.length > 0
    show(this.#actions, ...this.tools, ...(isEmpty ? [] : this.additions))
    if (isBlank) {
      const help = h("p", {}, isFiltered ? "Nothing matches these filters" : `No ${this.type.plural.toLowerCase()} yet`)
      const more = isEmpty ? [buttons(...this.additions), h("p", {}, "Or drop a CSV file anywhere on this page.")] : []
      show(this.#content, h("div", { class: "blank" }, help, ...more))
    } else {
      this.table.show(document)
      show(this.#content, this.table.element, this.#pages(document.meta.page))
    }
    this.selection.render()
    this.#known = NaN
    // A heavy filter may be too much to count, and the table does not need it.
    if (document.meta.total === undefined) this.#showCount().catch(() => {})
    else this.#tellCount(document.meta.total)
  }

  /**
   * Read the page that the address names. MongoDB sorts what has no value first, people expect it last: so the pages of
   * an ascending sort are those with a value, and then those without, by number; the last of the former has also the
   * first of the latter.
   * @returns {Promise<JsonDocument>}
   */
  async #readPage() {
    const query = { ...this.query, ...this.filters, ...this.#order, "page[size]": String(PAGE_SIZE) }
    const read = async (/** @type {Query} */ page) =>
      (await api.get(this.path, { ...query, ...page }, this.signal)).document
    const blank = this.columns.find((column) => column.sort === this.sort)?.blank
    if (!blank || `filter[${blank}][null]` in this.filters) {
      return read(Object.fromEntries([...this.state].filter(([name]) => name.startsWith("page"))))
    }
    const part = (/** @type {boolean} */ isBlank, /** @type {number} */ number) =>
      read({ [`filter[${blank}][null]`]: String(isBlank), "page[number]": String(number) })
    const number = Number(this.state.get("page[number]") ?? 1)
    const valued = await part(false, number)
    const last = Math.max(Math.ceil(valued.meta.total / PAGE_SIZE), 1)
    const before = number > 1 ? String(number - 1) : null
    const after = String(number + 1)
    if (number < last) return { ...valued, meta: { page: { before, after, isNumbered: true } } }
    const blanks = await part(true, number - last + 1)
    const isLast = (number - last + 1) * PAGE_SIZE >= blanks.meta.total
    return {
      data: [...valued.data, ...blanks.data],
      included: [...(valued.included ?? []), ...(blanks.included ?? [])],
      meta: {
        total: valued.meta.total + blanks.meta.total,
        page: { before, after: isLast ? null : after, isNumbered: true },
      },
    }
  }

  /** @returns {Query} */
  get #order() {
    return this.sort ? { sort: this.sort } : {}
  }

  async #showCount() {
    const page = { [`fields[${this.type.name}]`]: "", "page[number]": "1", "page[size]": "1" }
    const { document } = await api.get(this.path, { ...this.filters, ...page }, this.signal)
    this.#tellCount(document.meta.total)
  }

  /** Show how many resources there are, and offer to show those that are new. @param {number} total */
  #tellCount(total) {
    if (Number.isNaN(this.#known)) this.#known = total
    const added = total - this.#known
    const text = `${counted(added, "new entry", "new entries")}: show the newest first`
    const newest = button(text, () => this.#navigate({ sort: "-id" }), { class: "newer" })
    show(this.#newer, added > 0 && newest)
    this.#count.textContent = countedOf(this.type, total)
    this.selection.render(total)
  }

  /** @param {Change[]} changes */
  update(changes) {
    const own = changes.filter((change) => change.type === this.type.name)
    this.#known -= own.filter(({ op, id }) => op === "remove" && this.table.has(id)).length
    if (own.some(({ op }) => op !== "update")) this.#readTotal()
    if (countedLinks(this.type).some((link) => changes.some(({ type }) => type === link.target))) this.#readCounts()
    for (const id of this.table.affected(changes)) this.#changed.add(id)
    if (this.#changed.size > 0) this.#readRows()
  }

  /** @param {Resource[]} [others] that may show other numbers of linked resources */
  async #readChanged(others = []) {
    const ids = [...new Set([...this.#changed, ...others.map(({ id }) => id)])]
    this.#changed.clear()
    if (ids.length === 0 || this.signal.aborted) return
    const some = { "filter[id][in]": ids.join(","), "page[size]": String(ids.length) }
    const { document } = await api.get(this.type.path, { ...this.query, ...some }, this.signal)
    this.table.update(document)
    this.selection.render()
  }

  async #create() {
    const { openCreation } = await arrived(import("./form.js"))
    openCreation(this.type, { onCreated: (created) => this.#showCreated(created) })
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
    const control = button(label, () => this.#navigate({ sort: next }), { class: "sort" })
    const filter = this.type.filters.find((other) => other.name === (kind === "link" ? sort : name))
    const title = `Filter by ${label.toLowerCase()}`
    const funnel = { "aria-label": title, title, class: "funnel" }
    const choose = filter && button("", () => this.#chooseFilter(filter.name), funnel)
    return h("th", { ...attributes, "aria-sort": order ?? "none" }, control, choose)
  }

  /** Return what sorts where there is no room for headings. */
  #sortBox() {
    const option = (/** @type {string} */ label, /** @type {string} */ sort) =>
      new Option(label, sort, false, sort === this.sort)
    const options = this.columns.flatMap(({ sort, label }) =>
      sort ? [option(`${label} ↑`, sort), option(`${label} ↓`, `-${sort}`)] : [],
    )
    if (!options.some(({ selected }) => selected)) options.unshift(option("Other", this.sort))
    const change = () => this.#navigate({ sort: box.value })
    const box = h("select", { "aria-label": "Sort by", class: "sort-by", change }, ...options)
    return box
  }

  /** Return another state, at its first page unless it names one. @param {Query} changes "" removes a parameter */
  #changedState(changes) {
    const kept = [...this.state].filter(([name]) => !name.startsWith("page") && !(name in changes))
    return new URLSearchParams([...kept, ...Object.entries(changes).filter(([, value]) => value)])
  }

  /** @param {Query} changes */
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
    const links = [link("Previous page", "page[before]", before), link("Next page", "page[after]", after)]
    return h("nav", { class: "pages", "aria-label": "Pages" }, ...links)
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
        control.textContent = `Downloading: ${number(Math.ceil(size / 1e6))} MB`
      }
      saveFile(new Blob(parts, { type: "text/csv" }), `${this.path.split("/").at(-1)}.csv`)
    } finally {
      control.textContent = "Download CSV"
    }
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
  const { openImport } = await arrived(import("./import.js"))
  openImport(type, file)
}
