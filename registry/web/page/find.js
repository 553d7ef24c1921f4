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
 * A box that finds resources (ARIA: combobox with a list box).
 *
 * Enter opens the resource that is named exactly as typed, as barcode scanners need it, or else the chosen option.
 */
export class FindBox {
  /** What can be chosen. @type {HTMLElement[]} */
  #options = []
  #chosen = -1
  #searched = ""
  #running = new AbortController()
  element = copy("find-box")
  input = /** @type {HTMLInputElement} */ (this.element.querySelector("input"))
  #list = /** @type {HTMLElement} */ (this.element.querySelector("ul"))
  #status = /** @type {HTMLElement} */ (this.element.querySelector("span"))

  /**
   * @param {Type[]} types
   * @param {(type: Type, resource: Resource, name: string) => unknown} onPick
   * @param {{
   *   label: string, placeholder?: string, id?: string, onNew?: (type: Type, text: string) => unknown,
   *   onAll?: (type: Type, text: string) => unknown,
   * }} options onNew: creates what is not found. onAll: shows all that is found
   */
  constructor(types, onPick, { label, placeholder = "", id = newId(), onNew, onAll }) {
    this.types = types
    this.onPick = onPick
    this.onNew = onNew
    this.onAll = onAll
    this.#list.id = newId()
    this.#list.ariaLabel = this.input.ariaLabel = label
    this.input.setAttribute("aria-controls", this.#list.id)
    Object.assign(this.input, { id, placeholder })
    this.input.addEventListener("input", () => this.#begin((signal) => this.#find(signal, WAIT_MS)))
    this.input.addEventListener("keydown", (event) => this.#onKey(event))
    this.input.addEventListener("blur", () => this.#open(false))
    this.input.addEventListener("focus", () => this.#open(this.#options.length > 0 && this.#searched === this.#text))
    this.#list.addEventListener("mousedown", (event) => event.preventDefault()) // the box keeps the focus
  }

  get #text() {
    return this.input.value.trim()
  }

  /** End the search that runs for another, and show why that fails. @param {(signal: AbortSignal) => unknown} search */
  async #begin(search) {
    this.#running.abort()
    this.#running = new AbortController()
    try {
      await search(this.#running.signal)
    } catch (error) {
      if (!isAborted(error)) this.#render([], /** @type {Error} */ (error).message)
    }
  }

  /** Show what fits what is typed. @param {AbortSignal} signal @param {number} [wait] milliseconds for more letters */
  async #find(signal, wait = 0) {
    if (wait) await pause(wait, signal)
    const text = this.#text
    if (!text) return this.#render([])
    // An index finds texts by how they begin; to find a part of them, all are compared.
    const prefixed = await Promise.all(
      this.types.map((type) => search(type, { filter: conditions(type, "prefix", text) }, signal)),
    )
    const first = this.types.flatMap((type, index) => this.#optionsOf(type, prefixed[index].found))
    if (first.length > 0) this.#render(first)
    const options = this.types.map(async (type, index) => {
      const { found, total } = await search(type, { "filter[search]": text, "page[number]": "1" }, signal)
      const known = prefixed[index].found
      const others = found.filter(({ resource }) => !known.some((other) => other.resource.id === resource.id))
      const shown = this.#optionsOf(type, [...known, ...others].slice(0, RESULTS_PER_TYPE))
      const { onAll, onNew } = this
      const all = `All ${countedOf(type, total)}`
      if (onAll && total > shown.length) shown.push(this.#option(() => onAll(type, text), all))
      // What is typed may have changed when this is chosen.
      const added = `New ${type.label.toLowerCase()} “${text}”…`
      if (onNew) shown.push(this.#option((typed) => onNew(type, typed), added))
      return shown
    })
    this.#render((await Promise.all(options)).flat(), "Nothing found")
    this.#searched = text
  }

  /**
   * Return what can be chosen.
   * @param {(text: string) => unknown} act called with what is typed then
   * @param {...Child} content
   */
  #option(act, ...content) {
    const click = () => {
      const text = this.#text
      this.clear()
      act(text)
    }
    return h("li", { role: "option", id: newId(), "aria-selected": "false", click }, ...content)
  }

  /** @param {Type} type @param {Found[]} found */
  #optionsOf(type, found) {
    const isMixed = this.types.length > 1
    return found.map(({ resource, name, more }) => {
      const row = h("span", {}, h("bdi", {}, name), more && h("small", {}, h("bdi", {}, more)))
      return this.#option(() => this.onPick(type, resource, name), row, isMixed && h("small", {}, type.label))
    })
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const { key } = event
    const isShown = this.input.value || this.#list.matches(":popover-open")
    if (key === "Escape" && !isShown) return this.input.blur()
    if (!["ArrowDown", "ArrowUp", "Escape", "Enter"].includes(key)) return
    event.preventDefault()
    event.stopPropagation()
    if (key === "Escape") {
      this.clear()
      this.input.dispatchEvent(new Event("input"))
    } else if (key !== "Enter") this.#choose(this.#chosen + (key === "ArrowDown" ? 1 : -1))
    else if (this.#chosen >= 0) this.#options[this.#chosen].click()
    else this.#begin((signal) => this.#enter(signal))
  }

  /** Open what is named exactly as typed; otherwise only choose the first option. @param {AbortSignal} signal */
  async #enter(signal) {
    const text = this.#text
    if (!text) return
    const searches = this.types.map(async (type) => {
      const { found } = await search(type, { filter: conditions(type, "eq", text) }, signal)
      return this.#optionsOf(type, found)
    })
    const exact = (await Promise.all(searches)).flat()
    if (exact.length === 1) return exact[0].click()
    if (this.#searched !== text) await this.#find(signal)
    if (this.onNew && this.#options.length === 1) return this.#options[0].click()
    this.#choose(0)
    if (this.#options.length === 0) return
    this.#status.textContent = "No exact match. Press Enter again to open the first result."
  }

  /**
   * Show options; the one that was chosen stays so.
   * @param {HTMLElement[]} options @param {string} [note] shown if there are none
   */
  #render(options, note = "") {
    this.#options = options
    const isEmpty = options.length === 0
    const empty = isEmpty && note ? [h("li", { role: "option", "aria-disabled": "true" }, note)] : []
    this.#list.replaceChildren(...options, ...empty)
    this.#status.textContent = isEmpty ? note : counted(options.length, "result")
    this.#open(!isEmpty || empty.length > 0)
    const chosen = this.#chosen
    this.#chosen = -1
    this.input.removeAttribute("aria-activedescendant")
    if (chosen >= 0 && !isEmpty) this.#choose(Math.min(chosen, options.length - 1))
  }

  /** @param {number} index of the option; beyond the ends, that at the other end */
  #choose(index) {
    const count = this.#options.length
    if (count === 0) return
    this.#open(true)
    this.#chosen = (index + count) % count
    const chosen = this.#options[this.#chosen]
    for (const option of this.#options) option.ariaSelected = String(option === chosen)
    this.input.setAttribute("aria-activedescendant", chosen.id)
    chosen.scrollIntoView({ block: "nearest" })
  }

  /** Forget what was typed and found. */
  clear() {
    this.#running.abort()
    this.input.value = ""
    this.#searched = ""
    this.#render([])
  }

  /** Open the list while the box has the focus, or close it. @param {boolean} wants */
  #open(wants) {
    if (!this.input.isConnected) return
    const isOpen = wants && document.activeElement === this.input
    const { top, right, bottom, left } = this.input.getBoundingClientRect()
    const block = top + bottom > innerHeight ? `auto ${innerHeight - top}px` : `${bottom}px auto`
    this.#list.style.setProperty("--block", block)
    this.#list.style.setProperty("--inline", `${left}px ${innerWidth - right}px`)
    this.#list.togglePopover(isOpen)
    this.input.ariaExpanded = String(isOpen)
  }
}
