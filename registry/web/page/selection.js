/** The rows that are selected in a table, and what can be done to all of them. */

import { api, arrived } from "./api.js"
import { announce, openDialog } from "./dialogs.js"
import { button, grid, h, show } from "./dom.js"
import { refresh } from "./router.js"
import { counted, number } from "./texts.js"
import { countedOf, linkable, nameOf } from "./types.js"

/** Resources that are selected at once; beyond it, that is the work of an import. */
const MAX_SELECTED = 10_000
const MAX_TOLD = 100

/**
 * Return what is selected in the table of a collection: the column with the boxes, and the element with what can be
 * done. render: called whenever the rows of the table, or their total number, have changed.
 * @param {Type} type @param {string} path of the collection @param {Query} filters those in force
 */
export function selectionOf(type, path, filters) {
  /** @type {Set<string>} */
  let selected = new Set()
  /** @type {Failures} */
  let failures = new Map()
  /** The box that was used last. @type {HTMLInputElement | null} */
  let anchor = null
  /** Of the resources that were shown, by id. @type {Map<string, string>} */
  const names = new Map()
  let matching = 0
  const all = h("input", { type: "checkbox", "aria-label": "Select all", change: () => set(boxes(), all.checked) })
  const element = h("div", { class: "selection", role: "group", "aria-label": "Selection", hidden: true })

  /** @returns {HTMLInputElement[]} */
  const boxes = () => Array.from(all.closest("table")?.querySelectorAll("tbody input:enabled") ?? [])

  /** @param {HTMLInputElement[]} boxes @param {boolean} isChecked */
  const set = (boxes, isChecked) => {
    for (const { value } of boxes) isChecked ? selected.add(value) : selected.delete(value)
    render()
  }

  /** Select a box, or not; with Shift, also those between it and the one that was used last; also by the space bar. */
  const click = (/** @type {MouseEvent} */ { currentTarget, shiftKey }) => {
    const box = /** @type {HTMLInputElement} */ (currentTarget)
    const shown = boxes()
    const end = shown.indexOf(box)
    const start = shiftKey ? shown.findIndex((other) => other === anchor) : end
    set(start < 0 ? [box] : shown.slice(Math.min(start, end), Math.max(start, end) + 1), box.checked)
    anchor = box
  }

  /** Show what is selected, and what can be done to it. @param {number} [total] how many match, if that was counted */
  const render = (total = matching) => {
    matching = total
    const [count, shown, links] = [selected.size, boxes(), linkable(type)]
    for (const box of shown) {
      box.checked = selected.has(box.value)
      const [row, reason] = [box.closest("tr"), failures.get(box.value)]
      row?.querySelector(".reason")?.remove()
      if (reason && box.checked) row?.querySelector(".name")?.append(h("small", { class: "reason" }, reason))
    }
    const chosen = shown.filter((box) => box.checked).length
    all.checked = chosen > 0 && chosen === shown.length
    all.indeterminate = chosen > 0 && chosen < shown.length
    element.hidden = count === 0
    const suffix = (/** @type {Relationship} */ link) => (links.length > 1 ? ` ${link.label.toLowerCase()}` : "")
    const hasMore = total > count && total <= MAX_SELECTED
    show(
      element,
      h("strong", { role: "status" }, `${number(count)} selected`),
      ...links.flatMap((link) => [
        button(`Assign${suffix(link) || " to"}…`, () => act((bulk, ids) => bulk.assign(type, ids, link))),
        button(`Unassign${suffix(link)}`, () => act((bulk, ids) => bulk.unassign(type, ids, link))),
      ]),
      button("Set attribute", () => act((bulk, ids) => bulk.setAttribute(type, ids))),
      button("Delete", () => act((bulk, ids) => bulk.remove(type, ids)), { class: "danger" }),
      hasMore && button(`Select all ${number(total)} that match`, selectMatching, { class: "quiet" }),
      button("Select none", () => keep(new Map()), { class: "quiet" }),
    )
  }

  /** Select all resources that the filters match. */
  const selectMatching = async () => {
    const query = { ...filters, [`fields[${type.name}]`]: "" }
    for (const { id } of await api.list(path, query, MAX_SELECTED)) selected.add(id)
    render()
  }

  /** Select the resources with these names, and tell which names nobody has. @param {string} text lines of names */
  const paste = async (text) => {
    const { display } = type
    const lines = text.split(/\r?\n/).map((line) => line.split("\t")[0].trim())
    const names = [...new Set(lines.filter(Boolean))]
    if (!display || names.length < 2) return
    if (names.length > MAX_SELECTED) throw new Error(`Paste at most ${number(MAX_SELECTED)} names at once.`)
    const { findNamed } = await arrived(import("./operations.js"))
    const found = await findNamed(type, names, MAX_SELECTED)
    for (const { id } of found) selected.add(id)
    render()
    if (found.length === MAX_SELECTED) return announce(`Only ${countedOf(type, MAX_SELECTED)} are selected.`)
    const known = new Set(found.map(({ attributes }) => attributes[display.name]))
    const unknown = names.filter((name) => !known.has(name))
    if (unknown.length === 0) return announce("All pasted names are selected.")
    const more = unknown.length > MAX_TOLD ? ` and ${counted(unknown.length - MAX_TOLD, "more name")}` : ""
    announce(`Not found: ${unknown.slice(0, MAX_TOLD).join(", ")}${more}.`, { isError: true })
  }

  /**
   * Do something to all that is selected, keep what failed, and show why.
   * @param {(actions: typeof import("./bulk.js"), ids: string[]) => Promise<Failures | null>} action
   */
  const act = async (action) => {
    const failed = await action(await arrived(import("./bulk.js")), [...selected])
    if (!failed) return
    keep(failed)
    if (failed.size > 0) {
      const told = [...failed].slice(0, MAX_TOLD)
      const rows = told.map(([id, reason]) => [names.get(id) ?? `${type.label} ${id}`, reason])
      openDialog(`${countedOf(type, failed.size)} could not be changed`, [grid([type.label, "Error"], rows)])
    }
    await refresh()
  }

  /** Keep only these selected. @param {Failures} failed */
  const keep = (failed) => {
    selected = new Set(failed.keys())
    failures = failed
    render()
  }

  /** @param {Resource} resource */
  const cell = (resource) => {
    const name = nameOf(type, resource)
    names.set(resource.id, name)
    return h("input", { type: "checkbox", "aria-label": `Select ${name}`, value: resource.id, click })
  }
  const head = h("th", { role: "columnheader", scope: "col", class: "select" }, all)
  return { column: { name: "", label: "", kind: "select", head, cell }, element, render, paste }
}
