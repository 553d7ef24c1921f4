/** The start of the page, and its router: the address has the whole state. */

import { askAgain, requireAccess, showAccess } from "./access.js"
import { Api, Failure, isAborted } from "./api.js"
import { Card } from "./card.js"
import { describe } from "./description.js"
import { announce, announceFailure, button, byId, h, refocus } from "./dom.js"
import { follow } from "./feed.js"
import { FindBox } from "./find.js"
import { askToLeave } from "./form.js"
import { List } from "./list.js"
import { texts } from "./texts.js"

/** @import { Access } from "./access.js" */
/** @import { Description, Type } from "./description.js" */
/** @import { Change } from "./feed.js" */
/**
 * @typedef {{
 *   element: HTMLElement, title: string | undefined, load(): Promise<void>, isDirty?: boolean,
 *   update(changes: Change[]): unknown,
 * }} View
 */

/** What all views share. */
export class App {
  api = new Api()

  /** What the access token allows; null where none is required. @type {Access | null} */
  access = null

  /** @type {View | null} */
  #view = null
  /** The form of a dialog that is open. @type {{ isDirty: boolean } | null} */
  pending = null

  #loading = new AbortController()
  #isLoading = false

  /** Changes since the view that is loaded began to read. @type {Change[]} */
  #early = []
  #shownHash = location.hash

  /** @param {Description} description */
  constructor(description) {
    this.description = description
  }

  mayRead = (/** @type {string} */ type) => !this.access || this.access.read.includes(type)
  mayWrite = (/** @type {string} */ type) => {
    const isWritable = this.description.types.get(type)?.writable ?? false
    return isWritable && (!this.access || this.access.write.includes(type))
  }

  /** Whether something was typed that would be lost. */
  get #isDirty() {
    return this.#view?.isDirty || this.pending?.isDirty
  }

  /** The types that may be read. */
  get types() {
    return [...this.description.types.values()].filter((one) => this.mayRead(one.name))
  }

  /**
   * Return the type with a name that the description has.
   * @param {string} name
   */
  typeOf(name) {
    return /** @type {Type} */ (this.description.types.get(name))
  }

  /**
   * Return the relationships to one or to many resources of types that may be read.
   * @param {Type} type
   * @param {boolean} many
   */
  links(type, many) {
    return type.relationships.filter((one) => one.many === many && this.mayRead(one.target))
  }

  /** Build what surrounds the views, and show what the address says. */
  async start() {
    document.title = this.description.title
    byId("title").textContent = this.description.title
    this.api.onUnauthorized = askAgain(this)
    this.api.onWait = (seconds) => announce(texts.wait(seconds))
    if (this.description.requiresTokens) {
      this.access = await requireAccess(this, texts.tokenHelp)
      showAccess(this, this.access)
    }
    this.#showTypes()
    document.addEventListener("keydown", (event) => this.#key(event))
    document.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault())
    document.addEventListener("drop", (event) => this.#drop(event))
    window.addEventListener("unhandledrejection", ({ reason }) => {
      if (!isAborted(reason)) announceFailure(reason)
    })
    window.addEventListener("hashchange", () => this.#follow())
    window.addEventListener("beforeunload", (event) => this.#isDirty && event.preventDefault())
    byId("find").focus()
    await this.show()
    follow(this.api, {
      onChanges: (changes) => {
        if (this.#isLoading) this.#early.push(...changes)
        this.#view?.update(changes)
      },
      onGap: () => this.refresh(),
      onConnection: (isConnected) => {
        byId("connection").textContent = isConnected ? "" : texts.notConnected
      },
    })
  }

  /** Show the types that may be read, and the box that finds their resources. */
  #showTypes() {
    const found = this.types.filter((one) => one.writable)
    const names = found.map((one) => one.plural.toLowerCase()).join(", ")
    const box = new FindBox(
      this,
      found,
      ({ type, resource }) => resource && this.navigate(`${type.path}/${resource.id}`),
      { label: texts.find, placeholder: texts.findHint(names), id: "find" },
    )
    byId("search").replaceChildren(box.element)
    const links = this.types.map((one) => h("a", { href: `#${one.path}` }, one.plural))
    byId("types").replaceChildren(...links)
    this.#markType()
  }

  /**
   * Take what another access token allows.
   * @param {Access} access
   */
  changeAccess(access) {
    const allowed = (/** @type {Access | null} */ one) =>
      JSON.stringify([one?.read, one?.write])
    const isSame = allowed(access) === allowed(this.access)
    this.access = access
    showAccess(this, access)
    if (isSame) return
    this.#showTypes()
    if (!this.#isLoading) this.refresh()
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {HTMLElement} */ (event.target)
    const isTyping =
      target.matches("input, select, textarea") || document.querySelector("dialog[open]")
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    const box = /** @type {HTMLInputElement} */ (byId("find"))
    box.focus()
    box.select()
  }

  /**
   * Import a file that is dropped anywhere.
   * @param {DragEvent} event
   */
  #drop(event) {
    if (!hasFiles(event)) return
    event.preventDefault()
    const file = event.dataTransfer?.files[0]
    const path = location.hash.slice(1).split(/[?/]/)[1]
    const types = this.types.filter((one) => this.mayWrite(one.name))
    const type = types.find((one) => one.path === `/${path}`) ?? types[0]
    if (file && type && !document.querySelector("dialog[open]")) this.import(type, file)
  }

  /**
   * Open the dialog that imports a file; few visitors need its module.
   * @param {Type} type
   * @param {File} [file]
   */
  async import(type, file) {
    const { openImport } = await import("./import.js").catch(() => {
      throw new Failure(0)
    })
    openImport(this, type, file)
  }

  /**
   * Return the address of a view.
   * @param {string} path as in the API
   * @param {URLSearchParams} [state]
   */
  address(path, state = new URLSearchParams()) {
    const query = state
      .toString()
      .replaceAll("%5B", "[")
      .replaceAll("%5D", "]")
      .replaceAll("%2C", ",")
    return `#${path}${query ? "?" : ""}${query}`
  }

  /**
   * Go to a view.
   * @param {string} path
   * @param {URLSearchParams} [state]
   */
  navigate(path, state) {
    const before = location.hash
    location.hash = this.address(path, state)
    if (location.hash === before) this.refresh()
  }

  /** Show the view of the address, unless what was typed in this one would be lost. */
  async #follow() {
    if (location.hash === this.#shownHash) return
    if (this.#isDirty) {
      const wanted = location.hash
      history.replaceState(null, "", this.#shownHash)
      if (!(await askToLeave())) return
      history.pushState(null, "", wanted)
    }
    this.#shownHash = location.hash
    for (const dialog of document.querySelectorAll("dialog")) dialog.close()
    await this.show({ isNew: true })
  }

  /** Read the view again, if nothing was typed in it. */
  refresh() {
    return this.#view?.isDirty ? undefined : this.show()
  }

  /**
   * Show the view of the address.
   * @param {{ isNew?: boolean }} [options] isNew: whether to begin at its heading
   */
  async show({ isNew = false } = {}) {
    this.#loading.abort()
    this.#loading = new AbortController()
    const { signal } = this.#loading
    this.#isLoading = true
    this.#early = []
    const main = byId("main")
    main.setAttribute("aria-busy", "true")
    let content
    try {
      const view = this.#viewOf(signal)
      await view.load()
      if (signal.aborted) return
      this.#view = view
      content = view.element
    } catch (error) {
      if (signal.aborted) return
      content = this.#failed(/** @type {Error} */ (error))
    }
    this.#isLoading = false
    main.removeAttribute("aria-busy")
    const focused = document.activeElement
    main.replaceChildren(content)
    if (focused && !focused.isConnected) refocus(focused)
    document.title = `${this.#view?.title ?? texts.notFound} – ${this.description.title}`
    this.#markType()
    if (this.#early.length > 0) this.#view?.update(this.#early)
    if (isNew) {
      main.querySelector("h1")?.focus()
      window.scrollTo(0, 0)
    }
  }

  /**
   * Return the view that the address names. Raises Failure.
   * @param {AbortSignal} signal
   * @returns {View}
   */
  #viewOf(signal) {
    const [path, query] = location.hash.slice(1).split("?")
    const [collection, id, link] = path.split("/").filter(Boolean)
    const state = new URLSearchParams(query)
    const type = collection
      ? this.types.find((one) => one.path === `/${collection}`)
      : this.types[0]
    if (!type) throw new Failure(this.types.length > 0 ? 404 : 403)
    if (id && !/^[0-9]+$/.test(id)) throw new Failure(404)
    if (!id) return new List(this, type, type.path, state, signal)
    if (!link) return new Card(this, type, id, signal)
    const relationship = type.relationships.find((one) => one.many && one.name === link)
    const target = relationship && this.types.find((one) => one.name === relationship.target)
    if (!target) throw new Failure(404)
    return new List(this, target, `${type.path}/${id}/${link}`, state, signal, type)
  }

  /**
   * Return what is shown in place of a view that cannot be read.
   * @param {Error} error
   */
  #failed(error) {
    this.#view = null
    const isMissing = error instanceof Failure && error.status === 404
    return h(
      "section",
      { class: "blank", role: "alert" },
      h("h1", { tabindex: "-1" }, isMissing ? texts.notFound : texts.failed),
      h("p", {}, isMissing ? texts.notFoundHelp : error.message),
      isMissing ? null : button(texts.tryAgain, () => this.show(), { class: "primary" }),
    )
  }

  #markType() {
    const path = location.hash.slice(1).split(/[?/]/)[1]
    for (const link of byId("types").querySelectorAll("a")) {
      const isShown =
        link.hash === `#/${path ?? ""}` || (!path && link === byId("types").firstElementChild)
      if (isShown) link.setAttribute("aria-current", "page")
      else link.removeAttribute("aria-current")
    }
  }
}

/**
 * Return whether files are dragged, and not text.
 * @param {DragEvent} event
 */
function hasFiles(event) {
  return event.dataTransfer?.types.includes("Files") ?? false
}

/** Read the description of the registry, and start. */
async function start() {
  try {
    const response = await new Api().fetch("GET", "/api/swagger/openapi.json", {
      accept: "application/json",
    })
    await new App(describe(await response.json())).start()
  } catch (error) {
    const again = button(texts.tryAgain, () => location.reload(), { class: "primary" })
    const text = h("p", {}, /** @type {Error} */ (error).message)
    byId("main").replaceChildren(
      h("section", { class: "blank", role: "alert" }, h("h1", {}, texts.failed), text, again),
    )
  }
}

start()
