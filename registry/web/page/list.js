/** The view of a collection: its pages, sorted and filtered as its address says, which follow what others change. */

import { api, arrived } from "./api.js"
import { controlsOf } from "./controls.js"
import { button, buttons, h, show } from "./dom.js"
import { inTurn, later } from "./reads.js"
import { selectionOf } from "./selection.js"
import { columnsOf, Table } from "./table.js"
import { counted, number } from "./texts.js"
import { countedLinks, countedOf, fieldsWithNames, mayWrite } from "./types.js"

const PAGE_SIZE = 50
const ROWS_MS = 150
const TOTALS_MS = 2_500
const REVOKE_MS = 60_000

/**
 * Return the view of a collection.
 * @param {Type} type @param {string} path of the collection
 * @param {URLSearchParams} state sort, filters and page, as in the address
 * @param {AbortSignal} signal ends the view
 * @param {Type} [parent] the type of the resource that the collection belongs to @returns {View}
 */
export function listOf(type, path, state, signal, parent) {
  const filters = Object.fromEntries([...state].filter(([name]) => name.startsWith("filter")))
  const counts = countedLinks(type).map((link) => link.name)
  const query = { ...fieldsWithNames(type), ...(counts.length > 0 ? { withCount: counts.join(",") } : {}) }
  const columns = columnsOf(type, parent?.name)
  const sort = state.get("sort") ?? (type.writable ? columns[0].sort : "") ?? ""
  /** Finds what is shown on all pages. @type {Query} */
  const all = { ...query, ...filters, ...(sort ? { sort } : {}) }
  /** Ids of the resources to read again. @type {Set<string>} */
  const changed = new Set()
  /** How many resources were known when the page was read, without those that were deleted since. */
  let known = NaN

  const selection = selectionOf(type, path, filters)
  const controls = controlsOf(type, path, state, columns, sort)
  const headed = columns.map((column) => ({ ...column, head: controls.heading(column) }))
  const table = new Table(type, mayWrite(type.name) ? [selection.column, ...headed] : headed)
  const take = button("Download CSV", () => download())
  const bring = button("Import CSV", () => bringFile(type))
  const create = button(`New ${type.label.toLowerCase()}`, () => openForm(), { class: "primary" })
  const additions = !parent && mayWrite(type.name) ? [bring, create] : []
  const up = path.split("/").slice(0, 3).join("/")
  const crumb = parent && h("p", { class: "crumb" }, h("a", { href: `#${up}` }, parent.label))
  const count = h("span", { class: "count" })
  const heading = h("h1", { tabindex: "-1" }, type.plural, " ", count)
  const actions = h("div", { class: "actions" })
  const header = h("header", {}, h("div", {}, crumb, heading), actions)
  const newer = h("div", { role: "status" })
  const content = h("div")
  const element = h("section", { class: "list" }, header, controls.filters, newer, content, selection.element)

  /** Read the page, and later the count. Raises Failure, AbortError. */
  const load = inTurn(async () => {
    const document = await readPage()
    const isFiltered = Object.keys(filters).length > 0
    const isBlank = document.data.length === 0
    const isEmpty = isBlank && !isFiltered && additions.length > 0
    show(actions, controls.sortBox(), controls.filter, take, ...(isEmpty ? [] : additions))
    if (isBlank) {
      const help = h("p", {}, isFiltered ? "Nothing matches these filters" : `No ${type.plural.toLowerCase()} yet`)
      const more = isEmpty ? [buttons(...additions), h("p", {}, "Or drop a CSV file anywhere on this page.")] : []
      show(content, h("div", { class: "blank" }, help, ...more))
    } else {
      table.show(document)
      show(content, table.element, controls.pages(document.meta.page))
    }
    selection.render()
    known = NaN
    // A heavy filter may be too much to count, and the table does not need it.
    if (document.meta.total === undefined) readCount().catch(() => {})
    else showCount(document.meta.total)
  })

  /**
   * Read the page that the address names. MongoDB sorts what has no value first, people expect it last: so the pages of
   * an ascending sort are those with a value, and then those without, by number; the last of the former has also the
   * first of the latter.
   * @returns {Promise<JsonDocument>}
   */
  const readPage = async () => {
    const read = async (/** @type {Query} */ page) =>
      (await api.get(path, { ...all, "page[size]": String(PAGE_SIZE), ...page }, signal)).document
    const blank = columns.find((column) => column.sort === sort)?.blank
    if (!blank || `filter[${blank}][null]` in filters) {
      return read(Object.fromEntries([...state].filter(([name]) => name.startsWith("page"))))
    }
    const part = (/** @type {boolean} */ isBlank, /** @type {number} */ number) =>
      read({ [`filter[${blank}][null]`]: String(isBlank), "page[number]": String(number) })
    const number = Number(state.get("page[number]") ?? 1)
    const valued = await part(false, number)
    const last = Math.max(Math.ceil(valued.meta.total / PAGE_SIZE), 1)
    const page = { before: number > 1 ? String(number - 1) : null, after: String(number + 1), isNumbered: true }
    if (number < last) return { ...valued, meta: { page } }
    const blanks = await part(true, number - last + 1)
    const isLast = (number - last + 1) * PAGE_SIZE >= blanks.meta.total
    const total = valued.meta.total + blanks.meta.total
    return {
      data: [...valued.data, ...blanks.data],
      included: [...(valued.included ?? []), ...(blanks.included ?? [])],
      meta: { total, page: isLast ? { ...page, after: null } : page },
    }
  }

  const readCount = async () => {
    const page = { [`fields[${type.name}]`]: "", "page[number]": "1", "page[size]": "1" }
    const { document } = await api.get(path, { ...filters, ...page }, signal)
    showCount(document.meta.total)
  }

  /** Show how many resources there are, and offer to show those that are new. @param {number} total */
  const showCount = (total) => {
    if (Number.isNaN(known)) known = total
    const added = total - known
    const text = `${counted(added, "new entry", "new entries")}: show the newest first`
    show(newer, added > 0 && button(text, () => controls.go({ sort: "-id" }), { class: "newer" }))
    count.textContent = countedOf(type, total)
    selection.render(total)
  }

  /** Read changed rows. @param {string[]} [others] ids of those that may show other numbers of linked resources */
  const readChanged = async (others = []) => {
    const ids = [...new Set([...changed, ...others])]
    changed.clear()
    if (ids.length === 0 || signal.aborted) return
    const some = { "filter[id][in]": ids.join(","), "page[size]": String(ids.length) }
    try {
      const { document } = await api.get(type.path, { ...query, ...some }, signal)
      table.update(document)
      selection.render()
    } catch (error) {
      for (const id of ids) changed.add(id)
      throw error
    }
  }
  const readRowsLater = later(readChanged, ROWS_MS)
  const readCountsLater = later(() => readChanged(table.ids), TOTALS_MS)
  const readCountLater = later(readCount, TOTALS_MS)

  const openForm = async () => {
    const { openCreation } = await arrived(import("./form.js"))
    openCreation(type, { onCreated: showCreated })
  }

  /** @param {Resource} created */
  const showCreated = async ({ id }) => {
    await load()
    const { document } = await api.get(type.path, { ...query, "filter[id]": id, "page[size]": "1" }, signal)
    if (document.data.length > 0 && table.element.isConnected) table.insert(document)
  }

  /** Download all pages as CSV; the button shows how much has arrived. */
  const download = async () => {
    try {
      take.textContent = "Downloading…"
      const parts = []
      let size = 0
      for await (const part of api.stream("GET", path, { query: all, accept: "text/csv" })) {
        parts.push(part)
        size += part.length
        take.textContent = `Downloading: ${number(Math.ceil(size / 1e6))} MB`
      }
      saveFile(new Blob(parts, { type: "text/csv" }), `${path.split("/").at(-1)}.csv`)
    } finally {
      take.textContent = "Download CSV"
    }
  }

  return {
    element,
    title: type.plural,
    load,
    update(changes) {
      const own = changes.filter((change) => change.type === type.name)
      known -= own.filter(({ op, id }) => op === "remove" && table.ids.includes(id)).length
      if (own.some(({ op }) => op !== "update")) readCountLater()
      if (countedLinks(type).some((link) => changes.some((change) => change.type === link.target))) readCountsLater()
      for (const id of table.affected(changes)) changed.add(id)
      if (changed.size > 0) readRowsLater()
    },
    paste: (text) => mayWrite(type.name) && selection.paste(text),
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
