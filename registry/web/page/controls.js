/** What leads from a table to another state of it, which its address has: headings, filters, links to its pages. */

import { button, h } from "./dom.js"
import { askForFilter, chips } from "./filter.js"
import { address, navigate } from "./router.js"

/**
 * Return the controls of a table.
 * @param {Type} type @param {string} path of the collection @param {URLSearchParams} state sort, filters and page
 * @param {Column[]} columns @param {string} sort the present one, also if the state has none
 */
export function controlsOf(type, path, state, columns, sort) {
  /** Return another state, at its first page unless it names one. @param {Query} changes "" removes a parameter */
  const changed = (changes) => {
    const kept = [...state].filter(([name]) => !name.startsWith("page") && !(name in changes))
    return new URLSearchParams([...kept, ...Object.entries(changes).filter(([, value]) => value)])
  }

  /** @param {Query} changes */
  const go = (changes) => navigate(path, changed(changes))

  /** Ask for a filter. @param {string} [field] */
  const chooseFilter = async (field) => {
    const filter = await askForFilter(type, field)
    if (filter) go(filter)
  }

  /** @param {Column} column */
  const heading = ({ name, label, sort: sorted, kind }) => {
    const attributes = { role: "columnheader", scope: "col", "data-label": label, class: kind }
    if (!sorted) return h("th", attributes, label)
    const order = { [sorted]: "ascending", [`-${sorted}`]: "descending" }[sort]
    const next = order === "ascending" ? `-${sorted}` : sorted
    const control = button(label, () => go({ sort: next }), { class: "sort" })
    const filter = type.filters.find((other) => other.name === (kind === "link" ? sorted : name))
    const title = `Filter by ${label.toLowerCase()}`
    const funnel = { "aria-label": title, title, class: "funnel" }
    const choose = filter && button("", () => chooseFilter(filter.name), funnel)
    return h("th", { ...attributes, "aria-sort": order ?? "none" }, control, choose)
  }

  /** Return what sorts where there is no room for headings. */
  const sortBox = () => {
    const orders = columns.flatMap(({ sort: sorted, label }) =>
      sorted ? [[`${label} ↑`, sorted], [`${label} ↓`, `-${sorted}`]] : [],
    )
    if (orders.every(([, value]) => value !== sort)) orders.unshift(["Other", sort])
    const options = orders.map(([label, value]) => new Option(label, value, false, value === sort))
    const change = () => go({ sort: box.value })
    const box = h("select", { "aria-label": "Sort by", class: "sort-by", change }, ...options)
    return box
  }

  /** @param {{ before: string | null, after: string | null, isNumbered?: boolean }} page */
  const pages = ({ before, after, isNumbered }) => {
    if (!before && !after) return null
    const link = (/** @type {string} */ label, /** @type {string} */ name, /** @type {string | null} */ cursor) => {
      if (!cursor) return h("span", { class: "disabled" }, label)
      const href = address(path, changed({ [isNumbered ? "page[number]" : name]: cursor }))
      return h("a", { href, class: "button" }, label)
    }
    const links = [link("Previous page", "page[before]", before), link("Next page", "page[after]", after)]
    return h("nav", { class: "pages", "aria-label": "Pages" }, ...links)
  }

  const filters = chips(type, state, (name) => go({ [name]: "" }))
  return { filters, sortBox, filter: button("Filter", () => chooseFilter()), heading, pages, go }
}
