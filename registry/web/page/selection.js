/** The rows that are selected in a table, and what can be done to all of them. */

import { api, arrived } from "./api.js"
import { announce, openDialog } from "./dialogs.js"
import { button, grid, h, show } from "./dom.js"
import { refresh } from "./router.js"
import { counted, number } from "./texts.js"
import { countedOf, linkable, nameOf } from "./types.js"

/** @import { Table } from "./table.js" */

/** Resources that are selected at once; beyond it, that is the work of an import. */
const MAX_SELECTED = 10_000
const MAX_TOLD = 100

export class Selection {
  /** @type {Set<string>} */
  #ids = new Set()
  /** @type {Failures} */
  #failures = new Map()
  /** The box that was used last. @type {HTMLInputElement | null} */
  #anchor = null
  #all = h("input", { type: "checkbox", "aria-label": "Select all", change: () => this.#selectShown() })
  element = h("div", { class: "selection", role: "group", "aria-label": "Selection", hidden: true })

  /** @param {Type} type @param {string} path of the collection @param {Query} filters those in force */
  constructor(type, path, filters) {
    this.type = type
    this.path = path
    this.filters = filters
    /** How many resources match; unknown until they are counted. */
    this.total = 0
    /** The table with the boxes. @type {Table | null} */
    this.table = null
  }

  /** The column with the boxes. @returns {Column} */
  get column() {
    const click = (/** @type {MouseEvent} */ { currentTarget, shiftKey, detail }) => {
      const box = /** @type {HTMLInputElement} */ (currentTarget)
      this.#use(box, box.checked, shiftKey && detail > 0)
    }
    const keydown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== " " || !event.shiftKey) return
      event.preventDefault()
      const box = /** @type {HTMLInputElement} */ (event.currentTarget)
      this.#use(box, !box.checked, true)
    }
    const cell = (/** @type {Resource} */ resource) => {
      const name = `Select ${nameOf(this.type, resource)}`
      return h("input", { type: "checkbox", "aria-label": name, value: resource.id, click, keydown })
    }
    const head = h("th", { role: "columnheader", scope: "col", class: "select" }, this.#all)
    return { name: "", label: "", kind: "select", head, cell }
  }

  get #boxes() {
    /** @type {NodeListOf<HTMLInputElement> | undefined} */
    const boxes = this.table?.element.querySelectorAll("tbody input:enabled")
    return [...(boxes ?? [])]
  }

  /**
   * Select a box, or not.
   * @param {HTMLInputElement} box @param {boolean} isChecked
   * @param {boolean} isRange whether also those between it and the one that was used last
   */
  #use(box, isChecked, isRange) {
    const boxes = this.#boxes
    const end = boxes.indexOf(box)
    const start = isRange ? boxes.findIndex((other) => other === this.#anchor) : end
    this.#set(start < 0 ? [box] : boxes.slice(Math.min(start, end), Math.max(start, end) + 1), isChecked)
    this.#anchor = box
  }

  /** @param {HTMLInputElement[]} boxes @param {boolean} isChecked */
  #set(boxes, isChecked) {
    for (const { value } of boxes) isChecked ? this.#ids.add(value) : this.#ids.delete(value)
    this.render()
  }

  #selectShown() {
    this.#set(this.#boxes, this.#all.checked)
  }

  /** Show what is selected, and what can be done to it. */
  render() {
    const [{ type }, count, boxes] = [this, this.#ids.size, this.#boxes]
    for (const box of boxes) {
      box.checked = this.#ids.has(box.value)
      const [row, reason] = [box.closest("tr"), this.#failures.get(box.value)]
      row?.querySelector(".reason")?.remove()
      if (reason && box.checked) row?.querySelector(".name")?.append(h("small", { class: "reason" }, reason))
    }
    const chosen = boxes.filter((box) => box.checked).length
    this.#all.checked = chosen > 0 && chosen === boxes.length
    this.#all.indeterminate = chosen > 0 && chosen < boxes.length
    this.element.hidden = count === 0
    const links = linkable(type)
    const isSole = links.length === 1
    const hasMore = this.total > count && this.total <= MAX_SELECTED
    const matching = `Select all ${number(this.total)} that match`
    show(
      this.element,
      h("strong", { role: "status" }, `${number(count)} selected`),
      hasMore && button(matching, () => this.#selectMatching(), { class: "quiet" }),
      ...links.flatMap((link) => [
        button(isSole ? "Assign to…" : `Assign ${link.label.toLowerCase()}…`, () =>
          this.#act((bulk, ids) => bulk.assign(type, ids, link)),
        ),
        button(isSole ? "Unassign" : `Unassign ${link.label.toLowerCase()}`, () =>
          this.#act((bulk, ids) => bulk.unassign(type, ids, link)),
        ),
      ]),
      button("Set attribute", () => this.#act((bulk, ids) => bulk.setAttribute(type, ids))),
      button("Delete", () => this.#act((bulk, ids) => bulk.remove(type, ids)), { class: "danger" }),
      button("Select none", () => this.#clear(), { class: "quiet" }),
    )
  }

  #clear() {
    this.#ids.clear()
    this.#failures.clear()
    this.render()
  }

  /** Select all resources that the filters match. */
  async #selectMatching() {
    const query = { ...this.filters, [`fields[${this.type.name}]`]: "" }
    for (const { id } of await api.list(this.path, query, MAX_SELECTED)) this.#ids.add(id)
    this.render()
  }

  /**
   * Select the resources that have these names, and tell which names nobody has.
   * @param {string} text with a name in each line
   */
  async paste(text) {
    const { display, path } = this.type
    const lines = text.split(/\r?\n/).map((line) => line.split("\t")[0].trim())
    const names = [...new Set(lines.filter(Boolean))].slice(0, MAX_SELECTED)
    if (!display || names.length < 2) return
    const { findNamed } = await arrived(import("./operations.js"))
    const found = await findNamed(this.type, path, names, MAX_SELECTED)
    for (const { id } of found) this.#ids.add(id)
    this.render()
    if (found.length === MAX_SELECTED) return announce(`Only ${countedOf(this.type, MAX_SELECTED)} are selected.`)
    const known = new Set(found.map(({ attributes }) => attributes[display.name]))
    const unknown = names.filter((name) => !known.has(name))
    const more = unknown.length > MAX_TOLD ? ` and ${counted(unknown.length - MAX_TOLD, "more name")}` : ""
    const isError = unknown.length > 0
    const told = `Not found: ${unknown.slice(0, MAX_TOLD).join(", ")}${more}.`
    announce(isError ? told : "All pasted names are selected.", { isError })
  }

  /**
   * Do something to all that is selected, and keep what failed.
   * @param {(actions: typeof import("./bulk.js"), ids: string[]) => Promise<Failures | null>} action
   */
  async #act(action) {
    const failures = await action(await arrived(import("./bulk.js")), [...this.#ids])
    if (failures) await this.#keep(failures)
  }

  /** Keep selected what failed, and show why. @param {Failures} failures */
  async #keep(failures) {
    this.#ids = new Set(failures.keys())
    this.#failures = failures
    this.render()
    if (failures.size > 0) {
      const names = new Map(this.table?.resources.map((resource) => [resource.id, nameOf(this.type, resource)]))
      const named = [...failures].slice(0, MAX_TOLD)
      const rows = named.map(([id, reason]) => [names.get(id) ?? `${this.type.label} ${id}`, reason])
      openDialog(`${countedOf(this.type, failures.size)} could not be changed`, [
        grid([this.type.label, "Error"], rows),
      ])
    }
    await refresh()
  }
}
