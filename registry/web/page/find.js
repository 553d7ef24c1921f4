/** Finding resources by what people know of them, as they type: first by how it begins. */

import { api, isAborted, isSame, linkedTo } from "./api.js"
import { h, newId } from "./dom.js"
import { texts } from "./texts.js"
import { countedOf, fieldsWithNames, nameOf, typeOf } from "./types.js"
import { plain } from "./values.js"

/** @import { Query, Resource } from "./api.js" */
/** @import { Type } from "./types.js" */
/** What can be chosen. @typedef {{ type: Type, title: Node | string, more: string, pick: () => unknown }} Option */
/** @typedef {{ resource: Resource, name: string, more: string }} Found */

const WAIT_MS = 150
const RESULTS_PER_TYPE = 6

/** Characters of the box: as many as a text has. */
const MAX_LENGTH = 255
const MARGIN_PX = 8

/**
 * Return the parameter `filter` for the resources of a type with an attribute that fits a text.
 * @param {Type} type
 * @param {"eq" | "prefix"} operator
 * @param {string} text
 */
function conditions(type, operator, text) {
  const searched = type.attributes.filter(({ name, copiedFrom }) => {
    const filter = type.filters.find((other) => other.name === name)
    return !copiedFrom && filter?.operators.includes("contains")
  })
  return JSON.stringify([{ or: searched.map(({ name }) => ({ name, op: operator, val: text })) }])
}

/**
 * Return the resources of a type that a filter matches, and how many there are if the page is numbered.
 * @param {Type} type
 * @param {Query} filter
 * @param {AbortSignal} signal
 * @returns {Promise<{ found: Found[], total: number }>}
 */
async function search(type, filter, signal) {
  const attributes = type.attributes.filter((attribute) => attribute !== type.display && !attribute.copiedFrom)
  const query = { ...fieldsWithNames(type, attributes), ...filter, "page[size]": String(RESULTS_PER_TYPE) }
  const { document } = await api.get(type.path, query, signal)
  const found = document.data.map((/** @type {Resource} */ resource) => {
    const name = nameOf(type, resource)
    const others = attributes.map((attribute) => ({ attribute, value: resource.attributes[attribute.name] }))
    const told = others.filter(({ value }) => value && !name.includes(value))
    const linked = linkedTo(resource)
    const owners = (document.included ?? []).filter((other) => linked.some((identifier) => isSame(identifier, other)))
    const more = [
      ...told.map(({ attribute, value }) => plain(attribute, value)),
      ...owners.map((owner) => nameOf(typeOf(owner.type), owner)),
    ]
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
  /** @type {Option[]} */
  #options = []
  #chosen = -1
  #searched = ""
  #search = new AbortController()
  /** @type {number | undefined} */
  #timer

  /**
   * @param {Type[]} types
   * @param {(type: Type, resource: Resource, name: string) => unknown} onPick
   * @param {{
   *   label: string, placeholder?: string, id?: string, onNew?: (type: Type, text: string) => unknown,
   *   onAll?: (type: Type, text: string) => unknown,
   * }} options onNew: creates what is not found. onAll: shows all that is found
   */
  constructor(types, onPick, { label, placeholder, id = newId(), onNew, onAll }) {
    this.types = types
    this.onPick = onPick
    this.onNew = onNew
    this.onAll = onAll
    const listId = newId()
    this.list = h("ul", { role: "listbox", id: listId, "aria-label": label, popover: "manual", class: "options" })
    this.status = h("span", { role: "status", class: "unseen" })
    this.input = h("input", {
      id,
      type: "search",
      enterkeyhint: "search",
      maxlength: MAX_LENGTH,
      role: "combobox",
      dir: "auto",
      "aria-label": label,
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": listId,
      autocomplete: "off",
      spellcheck: "false",
      placeholder,
      input: () => this.#wait(),
      keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      blur: () => this.#open(false),
      focus: () => this.#open(this.#options.length > 0 && this.#searched === this.#text),
    })
    this.element = h("div", { class: "find" }, this.input, this.list, this.status)
  }

  get #text() {
    return this.input.value.trim()
  }

  /** Forget the search that runs; return a signal for the next one. */
  #begin() {
    clearTimeout(this.#timer)
    this.#search.abort()
    this.#search = new AbortController()
    return this.#search.signal
  }

  #wait() {
    this.#begin()
    this.#timer = setTimeout(() => this.#guard(() => this.#run()), WAIT_MS)
  }

  /** Run a search, and show why it fails. @param {() => Promise<unknown>} action */
  async #guard(action) {
    try {
      await action()
    } catch (error) {
      if (!isAborted(error)) this.#render([], /** @type {Error} */ (error).message)
    }
  }

  /** Search for what is typed now. */
  async #run() {
    const [text, signal] = [this.#text, this.#begin()]
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
      const shown = [...known, ...others].slice(0, RESULTS_PER_TYPE)
      return [...this.#optionsOf(type, shown), ...this.#lastOf(type, text, Math.max(total, shown.length), shown.length)]
    })
    this.#render((await Promise.all(options)).flat(), texts.foundNothing)
    this.#searched = text
  }

  /** @param {Type} type @param {Found[]} found @returns {Option[]} */
  #optionsOf(type, found) {
    const pick = (/** @type {Found} */ { resource, name }) => {
      this.clear()
      this.onPick(type, resource, name)
    }
    return found.map((match) => ({ type, title: h("bdi", {}, match.name), more: match.more, pick: () => pick(match) }))
  }

  /**
   * Return the options after the resources that are found.
   * @param {Type} type
   * @param {string} text
   * @param {number} total
   * @param {number} shown
   * @returns {Option[]}
   */
  #lastOf(type, text, total, shown) {
    const { onAll, onNew } = this
    const all = () => {
      this.clear()
      onAll?.(type, text)
    }
    const create = () => {
      const typed = this.#text // the options may be those of what was typed before
      this.clear()
      onNew?.(type, typed)
    }
    const counted = countedOf(type, total)
    return [
      ...(onAll && total > shown ? [{ type, title: texts.showAll(counted), more: "", pick: all }] : []),
      ...(onNew ? [{ type, title: texts.chooseNew(type.label, text), more: "", pick: create }] : []),
    ]
  }

  /** @param {KeyboardEvent} event */
  async #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step) {
      event.preventDefault()
      this.#choose(this.#chosen + step)
    } else if (event.key === "Escape" && (this.input.value || this.#isOpen)) {
      event.preventDefault()
      event.stopPropagation()
      this.clear()
    } else if (event.key === "Escape") {
      this.input.blur()
    } else if (event.key === "Enter") {
      event.preventDefault()
      if (this.#chosen >= 0) this.#options[this.#chosen].pick()
      else await this.#guard(() => this.#enter())
    }
  }

  /** Open what is named exactly as typed; otherwise choose the first option, but do not open it. */
  async #enter() {
    const [text, signal] = [this.#text, this.#begin()]
    if (!text) return
    const searches = this.types.map(async (type) => {
      const { found } = await search(type, { filter: conditions(type, "eq", text) }, signal)
      return this.#optionsOf(type, found)
    })
    const exact = (await Promise.all(searches)).flat()
    if (exact.length !== 1 && this.#searched !== text) await this.#run()
    const sole = exact.length === 1 ? exact[0] : this.onNew && this.#options.length === 1 && this.#options[0]
    if (sole) sole.pick()
    else this.#choose(0)
    if (!sole && this.#options.length > 0) this.status.textContent = texts.foundNoExact
  }

  /**
   * Show options; the one that was chosen stays so.
   * @param {Option[]} options
   * @param {string} [note] shown if there are none
   */
  #render(options, note = "") {
    this.#options = options
    const items = options.map(({ type, title, more, pick }) => {
      const kind = this.types.length > 1 ? h("small", {}, type.label) : null
      const row = h("span", {}, title, more ? h("small", {}, h("bdi", {}, more)) : null)
      const mousedown = (/** @type {Event} */ event) => {
        event.preventDefault()
        pick()
      }
      return h("li", { role: "option", id: newId(), "aria-selected": "false", mousedown }, row, kind)
    })
    const isEmpty = items.length === 0
    const empty = isEmpty && note ? [h("li", { role: "option", "aria-disabled": "true" }, note)] : []
    this.list.replaceChildren(...items, ...empty)
    this.status.textContent = isEmpty ? note : texts.found(items.length)
    this.#open(items.length + empty.length > 0)
    const chosen = this.#chosen
    this.#chosen = -1
    this.input.removeAttribute("aria-activedescendant")
    if (chosen >= 0 && !isEmpty) this.#choose(Math.min(chosen, items.length - 1))
  }

  /** @param {number} index of the option; beyond the ends, that at the other end */
  #choose(index) {
    const count = this.#options.length
    if (count === 0) return
    this.#open(true)
    this.#chosen = (index + count) % count
    for (const [position, option] of [...this.list.children].entries()) {
      option.setAttribute("aria-selected", String(position === this.#chosen))
    }
    const chosen = this.list.children[this.#chosen]
    this.input.setAttribute("aria-activedescendant", chosen.id)
    chosen.scrollIntoView({ block: "nearest" })
  }

  /** Forget what was typed and found. */
  clear() {
    this.#begin()
    this.input.value = ""
    this.#searched = ""
    this.#chosen = -1
    this.#render([])
  }

  get #isOpen() {
    return this.list.matches(":popover-open")
  }

  /** @param {boolean} isOpen */
  #open(isOpen) {
    if (!this.input.isConnected) return
    this.list.togglePopover(isOpen)
    this.input.setAttribute("aria-expanded", String(isOpen))
    if (isOpen) this.#place()
    for (const event of ["scroll", "resize"]) {
      if (isOpen) window.addEventListener(event, this.#place, { capture: true })
      else window.removeEventListener(event, this.#place, { capture: true })
    }
  }

  /** Place the list below the box, or above it where there is more room; it never leaves the window. */
  #place = () => {
    const { left, width, top, bottom } = this.input.getBoundingClientRect()
    const [above, below] = [top - 2 * MARGIN_PX, innerHeight - bottom - 2 * MARGIN_PX]
    const isAbove = this.list.scrollHeight > below && above > below
    const { style } = this.list
    Object.assign(style, { left: `${left}px`, width: `${width}px`, maxHeight: `${isAbove ? above : below}px` })
    style.top = isAbove ? "auto" : `${bottom + MARGIN_PX / 2}px`
    style.bottom = isAbove ? `${innerHeight - top + MARGIN_PX / 2}px` : "auto"
  }
}
