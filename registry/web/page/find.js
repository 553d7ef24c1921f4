/** Finding resources by what people know of them, as they type: first by how it begins. */

import { isAborted, isSame, linkedTo } from "./api.js"
import { fieldsWithNames, nameOf } from "./description.js"
import { h, newId } from "./dom.js"
import { texts } from "./texts.js"
import { plain } from "./values.js"

/** @import { Resource } from "./api.js" */
/** @import { App } from "./app.js" */
/** @import { Type } from "./description.js" */
/** @typedef {{ type: Type, resource: Resource | null, name: string, more: string }} Found */

const WAIT_MS = 150
const RESULTS_PER_TYPE = 6

/** Characters of the box: as many as a text has. */
const MAX_LENGTH = 255

/**
 * Return the attributes of a type that people search.
 * @param {Type} type
 */
function searched(type) {
  const names = type.filters
    .filter((one) => one.operators.includes("contains"))
    .map((one) => one.name)
  return type.attributes.map((one) => one.name).filter((one) => names.includes(one))
}

/**
 * Return the resources of a type of which an attribute fits a text.
 * @param {App} app
 * @param {Type} type
 * @param {"contains" | "eq" | "prefix"} operator
 * @param {string} text
 * @param {AbortSignal} signal
 * @returns {Promise<Found[]>}
 */
async function search(app, type, operator, text, signal) {
  const conditions = searched(type).map((name) => ({ name, op: operator, val: text }))
  if (conditions.length === 0) return []
  const attributes = type.attributes.filter((one) => one !== type.display && !one.copiedFrom)
  const names = attributes.map((one) => one.name)
  const query = {
    ...fieldsWithNames(app, type, names),
    filter: JSON.stringify([{ or: conditions }]),
    "page[size]": String(RESULTS_PER_TYPE),
  }
  const { document } = await app.api.get(type.path, query, signal)
  return document.data.map((/** @type {Resource} */ resource) => {
    const name = nameOf(type, resource)
    const others = attributes.map((one) => ({ one, value: resource.attributes[one.name] }))
    const told = others.filter(({ value }) => value && !name.includes(value))
    const linked = (document.included ?? []).filter((one) =>
      linkedTo(resource).some((identifier) => isSame(identifier, one)),
    )
    const owners = linked.map((one) => nameOf(app.typeOf(one.type), one))
    const more = [...told.map(({ one, value }) => plain(one, value)), ...owners].slice(0, 3)
    return { type, resource, name, more: more.join(" · ") }
  })
}

/**
 * A box that finds resources (ARIA: combobox with a list box).
 *
 * Enter opens the resource that is named exactly as typed, as barcode scanners need it, or else the
 * chosen result.
 */
export class FindBox {
  /** @type {Found[]} */
  #found = []
  #chosen = -1
  #searched = ""
  #search = new AbortController()
  /** @type {number | undefined} */
  #timer

  /**
   * @param {App} app
   * @param {Type[]} types
   * @param {(found: Found) => void} onPick
   * @param {{ label: string, placeholder?: string, canCreate?: boolean, id?: string }} options
   *   canCreate: whether the results end with one without a resource, which is to be created
   */
  constructor(app, types, onPick, { label, placeholder, canCreate = false, id = newId() }) {
    this.app = app
    this.types = types
    this.onPick = onPick
    this.canCreate = canCreate
    const listId = newId()
    this.list = h("ul", { role: "listbox", id: listId, "aria-label": label, hidden: true })
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
      blur: () => this.#show(false),
      focus: () => this.#show(this.#found.length > 0 && this.#searched === this.input.value.trim()),
    })
    this.element = h("div", { class: "find" }, this.input, this.list, this.status)
  }

  #wait() {
    clearTimeout(this.#timer)
    this.#search.abort()
    this.#timer = setTimeout(() => this.#run(), WAIT_MS)
  }

  /** Search for what is typed now; outdated searches are cancelled. */
  async #run() {
    const text = this.input.value.trim()
    this.#search.abort()
    this.#search = new AbortController()
    if (!text) {
      this.#found = []
      return this.#render("")
    }
    try {
      const { signal } = this.#search
      // An index finds texts by how they begin; to find a part of them, all are compared.
      const prefixed = await Promise.all(
        this.types.map((type) => search(this.app, type, "prefix", text, signal)),
      )
      this.#found = prefixed.flat()
      if (this.#found.length > 0) this.#render("")
      const others = await Promise.all(
        this.types.map(async (type, index) => {
          const known = prefixed[index]
          if (known.length === RESULTS_PER_TYPE) return []
          const found = await search(this.app, type, "contains", text, signal)
          const isNew = (/** @type {Found} */ { resource }) =>
            !known.some((one) => one.resource?.id === resource?.id)
          return found.filter(isNew).slice(0, RESULTS_PER_TYPE - known.length)
        }),
      )
      this.#found.push(...others.flat())
      this.#searched = text
      if (this.canCreate) {
        this.#found.push(
          ...this.types.map((type) => ({ type, resource: null, name: text, more: "" })),
        )
      }
      const chosen = this.#chosen
      this.#render(this.#found.length > 0 ? "" : texts.foundNothing)
      if (chosen >= 0) this.#choose(chosen)
    } catch (error) {
      if (!isAborted(error)) this.#render(/** @type {Error} */ (error).message)
    }
  }

  /** @param {KeyboardEvent} event */
  async #key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1 }
    if (event.key in steps) {
      event.preventDefault()
      this.#choose(this.#chosen + steps[/** @type {keyof steps} */ (event.key)])
    } else if (event.key === "Escape" && (this.input.value || !this.list.hidden)) {
      event.preventDefault()
      event.stopPropagation()
      this.clear()
    } else if (event.key === "Escape") {
      this.input.blur()
    } else if (event.key === "Enter") {
      event.preventDefault()
      if (this.#chosen >= 0) this.#pick(this.#chosen)
      else await this.#enter()
    }
  }

  /** Open what is named exactly as typed; otherwise choose the first result, but do not open it. */
  async #enter() {
    const text = this.input.value.trim()
    clearTimeout(this.#timer)
    if (!text) return
    this.#search.abort()
    this.#search = new AbortController()
    const { signal } = this.#search
    const searches = this.types.map((type) => search(this.app, type, "eq", text, signal))
    try {
      const exact = (await Promise.all(searches)).flat()
      if (exact.length === 1) return this.#open(exact[0])
      if (this.#searched !== text) await this.#run()
      if (this.#found.length === 1 && this.canCreate) return this.#open(this.#found[0])
      if (this.#found.length > 0) {
        this.#choose(0)
        this.status.textContent = texts.foundNoExact
      }
    } catch (error) {
      if (!isAborted(error)) this.#render(/** @type {Error} */ (error).message)
    }
  }

  /** @param {string} note shown in place of results */
  #render(note) {
    const options = this.#found.map(({ type, resource, name, more }, index) => {
      const title = resource ? h("bdi", {}, name) : texts.chooseNew(type.label, name)
      const kind = this.types.length > 1 ? h("small", {}, type.label) : null
      const row = h("span", {}, title, more ? h("small", {}, h("bdi", {}, more)) : null)
      const pick = (/** @type {Event} */ event) => {
        event.preventDefault()
        this.#pick(index)
      }
      const attributes = { role: "option", id: newId(), "aria-selected": "false", mousedown: pick }
      return h("li", attributes, row, kind)
    })
    const empty = note ? [h("li", { role: "option", "aria-disabled": "true" }, note)] : []
    this.list.replaceChildren(...options, ...empty)
    this.#chosen = -1
    this.input.removeAttribute("aria-activedescendant")
    this.#show(options.length + empty.length > 0)
    this.status.textContent = note || (options.length > 0 ? texts.found(options.length) : "")
  }

  /** @param {number} index of the result; beyond the ends, that at the other end */
  #choose(index) {
    const count = this.#found.length
    if (count === 0) return
    this.#show(true)
    this.#chosen = (index + count) % count
    for (const [position, option] of [...this.list.children].entries()) {
      option.setAttribute("aria-selected", String(position === this.#chosen))
    }
    const chosen = this.list.children[this.#chosen]
    this.input.setAttribute("aria-activedescendant", chosen.id)
    chosen.scrollIntoView({ block: "nearest" })
  }

  /** @param {number} index */
  #pick(index) {
    this.#open(this.#found[index])
  }

  /** @param {Found} found */
  #open(found) {
    // The results may be those of what was typed before.
    const name = found.resource ? found.name : this.input.value.trim()
    this.clear()
    this.onPick({ ...found, name })
  }

  /** Forget what was typed and found. */
  clear() {
    clearTimeout(this.#timer)
    this.#search.abort()
    this.input.value = ""
    this.#found = []
    this.#searched = ""
    this.#render("")
  }

  /** @param {boolean} isOpen */
  #show(isOpen) {
    this.list.hidden = !isOpen
    this.input.setAttribute("aria-expanded", String(isOpen))
  }
}
