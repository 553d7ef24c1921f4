/** Finding resources by what people know of them, as they type: first by how it begins. */

import { api, isAborted, pause } from "./api.js"
import { copy, h, newId } from "./dom.js"
import { columnsOf } from "./table.js"
import { counted, NONE } from "./texts.js"
import { countedOf, fieldsWithNames, nameOf } from "./types.js"

/** more: what tells it apart from others. @typedef {{ resource: Resource, name: string, more: string }} Found */
const WAIT_MS = 150
const RESULTS_PER_TYPE = 6

/** Return the text attributes of a type, which may have none. @param {Type} type */
function textsOf(type) {
  return type.attributes.filter(({ name, copiedFrom }) => {
    const filter = type.filters.find((other) => other.name === name)
    return !copiedFrom && filter?.operators.includes("contains")
  })
}

/**
 * Return the parameter `filter` for the resources of a type with an attribute that fits a text.
 * @param {Type} type @param {"eq" | "prefix"} operator @param {string} text
 */
function conditions(type, operator, text) {
  return JSON.stringify([{ or: textsOf(type).map(({ name }) => ({ name, op: operator, val: text })) }])
}

/**
 * Return the resources of a type that a filter matches, and how many there are if the page is numbered.
 * @param {Type} type @param {Query} filter @param {AbortSignal} signal
 * @returns {Promise<{ found: Found[], total: number }>}
 */
async function search(type, filter, signal) {
  if (textsOf(type).length === 0) return { found: [], total: 0 } // the registry would refuse the filter
  const query = { ...fieldsWithNames(type), ...filter, "page[size]": String(RESULTS_PER_TYPE) }
  const { document } = await api.get(type.path, query, signal)
  const columns = columnsOf(type).filter(({ blank }) => blank !== undefined)
  const found = document.data.map((/** @type {Resource} */ resource) => {
    const name = nameOf(type, resource)
    const cells = columns.map(({ cell }) => h("span", {}, cell(resource, document.included ?? [])).textContent ?? "")
    const more = cells.filter((text) => text !== NONE && !name.includes(text))
    return { resource, name, more: more.slice(0, 3).join(" · ") }
  })
  return { found, total: document.meta.total ?? found.length }
}

/**
 * Return the input of a box that finds resources (ARIA: combobox with a list box), which is around it.
 *
 * Enter opens the resource that is named exactly as typed, as barcode scanners need it, or else the chosen option.
 * @param {Type[]} types
 * @param {(type: Type, resource: Resource, name: string) => unknown} onPick
 * @param {{
 *   label: string, placeholder?: string, onNew?: (type: Type, text: string) => unknown,
 *   onAll?: (type: Type, text: string) => unknown,
 * }} options onNew: creates what is not found. onAll: shows all that is found
 */
export function findBox(types, onPick, { label, placeholder = "Type to find…", onNew, onAll }) {
  const box = copy("find-box")
  const [input] = box.querySelectorAll("input")
  const [list] = box.querySelectorAll("ul")
  const [status] = box.querySelectorAll("span")
  /** What can be chosen. @type {HTMLElement[]} */
  let options = []
  let chosen = -1
  let searched = ""
  let running = new AbortController()
  const typed = () => input.value.trim()

  /** End the search that runs for another, and show why that fails. @param {(signal: AbortSignal) => unknown} search */
  const begin = async (search) => {
    running.abort()
    running = new AbortController()
    try {
      await search(running.signal)
    } catch (error) {
      if (!isAborted(error)) render([], /** @type {Error} */ (error).message)
    }
  }

  /** Show what fits what is typed. @param {AbortSignal} signal */
  const find = async (signal) => {
    const text = typed()
    if (!text) return render([])
    // An index finds texts by how they begin; to find a part of them, all are compared.
    const searches = types.map((type) => search(type, { filter: conditions(type, "prefix", text) }, signal))
    const prefixed = await Promise.all(searches)
    const first = types.flatMap((type, index) => optionsOf(type, prefixed[index].found))
    if (first.length > 0) render(first)
    const all = types.map(async (type, index) => {
      const { found, total } = await search(type, { "filter[search]": text, "page[number]": "1" }, signal)
      const known = prefixed[index].found
      const others = found.filter(({ resource }) => !known.some((other) => other.resource.id === resource.id))
      const shown = optionsOf(type, [...known, ...others].slice(0, RESULTS_PER_TYPE))
      const more = `All ${countedOf(type, total)}`
      if (onAll && total > shown.length) shown.push(optionOf(() => onAll(type, text), more))
      // What is typed may have changed when this is chosen.
      const added = `New ${type.label.toLowerCase()} “${text}”…`
      if (onNew) shown.push(optionOf((now) => onNew(type, now), added))
      return shown
    })
    render((await Promise.all(all)).flat(), "Nothing found")
    searched = text
  }

  /**
   * Return what can be chosen.
   * @param {(text: string) => unknown} act called with what is typed then
   * @param {...Child} content
   */
  const optionOf = (act, ...content) => {
    const click = () => {
      const text = typed()
      clear()
      act(text)
    }
    return h("li", { role: "option", id: newId(), "aria-selected": "false", click }, ...content)
  }

  /** @param {Type} type @param {Found[]} found */
  const optionsOf = (type, found) =>
    found.map(({ resource, name, more }) => {
      const row = h("span", {}, h("bdi", {}, name), more && h("small", {}, h("bdi", {}, more)))
      return optionOf(() => onPick(type, resource, name), row, types.length > 1 && h("small", {}, type.label))
    })

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const { key } = event
    const isShown = input.value || list.matches(":popover-open")
    if (key === "Escape" && !isShown) return input.blur()
    if (!["ArrowDown", "ArrowUp", "Escape", "Enter"].includes(key)) return
    event.preventDefault()
    event.stopPropagation()
    if (key === "Escape") {
      clear()
      input.dispatchEvent(new Event("input"))
    } else if (key !== "Enter") choose(chosen + (key === "ArrowDown" ? 1 : -1))
    else if (chosen >= 0) options[chosen].click()
    else begin(enter)
  }

  /** Open what is named exactly as typed; otherwise only choose the first option. @param {AbortSignal} signal */
  const enter = async (signal) => {
    const text = typed()
    if (!text) return
    const searches = types.map((type) => search(type, { filter: conditions(type, "eq", text) }, signal))
    const named = await Promise.all(searches)
    const exact = types.flatMap((type, index) => optionsOf(type, named[index].found))
    if (exact.length === 1) return exact[0].click()
    if (searched !== text) await find(signal)
    if (onNew && options.length === 1) return options[0].click()
    choose(0)
    if (options.length > 0) status.textContent = "No exact match. Press Enter again to open the first result."
  }

  /**
   * Show options; the one that was chosen stays so.
   * @param {HTMLElement[]} next @param {string} [note] shown if there are none
   */
  const render = (next, note = "") => {
    options = next
    const isEmpty = next.length === 0
    const empty = isEmpty && note ? [h("li", { role: "option", "aria-disabled": "true" }, note)] : []
    list.replaceChildren(...next, ...empty)
    status.textContent = isEmpty ? note : counted(next.length, "result")
    open(!isEmpty || empty.length > 0)
    const before = chosen
    chosen = -1
    input.removeAttribute("aria-activedescendant")
    if (before >= 0 && !isEmpty) choose(Math.min(before, next.length - 1))
  }

  /** @param {number} index of the option; beyond the ends, that at the other end */
  const choose = (index) => {
    if (options.length === 0) return
    open(true)
    chosen = (index + options.length) % options.length
    for (const [position, option] of options.entries()) option.ariaSelected = String(position === chosen)
    input.setAttribute("aria-activedescendant", options[chosen].id)
    options[chosen].scrollIntoView({ block: "nearest" })
  }

  /** Forget what was typed and found. */
  const clear = () => {
    running.abort()
    input.value = searched = ""
    render([])
  }

  /** Open the list while the box has the focus, or close it. @param {boolean} wants */
  const open = (wants) => {
    if (!input.isConnected) return
    const isOpen = wants && document.activeElement === input
    const { top, right, bottom, left } = input.getBoundingClientRect()
    const block = top + bottom > innerHeight ? `auto ${innerHeight - top}px` : `${bottom}px auto`
    list.style.setProperty("--block", block)
    list.style.setProperty("--inline", `${left}px ${innerWidth - right}px`)
    list.togglePopover(isOpen)
    input.ariaExpanded = String(isOpen)
  }

  list.id = newId()
  list.ariaLabel = input.ariaLabel = label
  input.setAttribute("aria-controls", list.id)
  input.placeholder = placeholder
  input.addEventListener("input", () => begin((signal) => pause(WAIT_MS, signal).then(() => find(signal))))
  input.addEventListener("keydown", onKey)
  input.addEventListener("blur", () => open(false))
  input.addEventListener("focus", () => open(options.length > 0 && searched === typed()))
  list.addEventListener("mousedown", (event) => event.preventDefault()) // the box keeps the focus
  return input
}
