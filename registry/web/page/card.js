/** The card of one resource: what it is, whom it is linked to, and everything to do with it. */

import { api, Failure, isSame } from "./api.js"
import { announce, ask } from "./dialogs.js"
import { button, h, show } from "./dom.js"
import { editorOf } from "./editor.js"
import { chooseResource } from "./form.js"
import { relink } from "./operations.js"
import { inTurn, later } from "./reads.js"
import { address, navigate, open } from "./router.js"
import { columnsOf, linkTo, Table } from "./table.js"
import { GONE, withArticle } from "./texts.js"
import { timeline } from "./timeline.js"
import { countedOf, fieldsWithNames, labelOf, links, mayLink, mayWrite, nameOf, typeOf } from "./types.js"
import { shown } from "./values.js"

/** @import { Form } from "./form.js" */

const ROWS = 10
const COLLECT_MS = 150
const CHANGED = "Somebody else has changed this meanwhile. Save, and you can compare."

/** A card, which is a view of the page. */
export class Card {
  /** The form, while the resource is edited. @type {Form | null} */
  #editor = null

  /** The entity tag of the version that the form knows. */
  known = ""
  #header = h("header")
  #paper = h("div", { class: "paper" })
  #edit = button("Edit", () => this.#openEditor())
  #remove = button("Delete", () => this.#delete(), { class: "quiet danger" })
  #actions = h("div", { class: "actions" }, this.#edit, this.#remove)

  /** Read the resource; return its version. Raises Failure, AbortError. */
  read = inTurn(() => this.#read())
  load = inTurn(() => this.#load())
  #follow = later(() => this.#loadOrTell(), COLLECT_MS)

  /** @param {Type} type @param {string} id @param {AbortSignal} signal */
  constructor(type, id, signal) {
    this.type = type
    this.id = id
    this.path = `${type.path}/${id}`
    this.signal = signal
    /** What was read last. @type {Version} */
    this.shown = { resource: { type: type.name, id, attributes: {} }, included: [], etag: "" }
    this.title = ""
    /** @type {Part[]} */
    this.parts = links(type, true).map((link) =>
      link.target === "revision" ? timeline(type, this.path, link, signal) : section(this, link),
    )
    const linked = h("div", { class: "linked" }, ...this.parts.map((part) => part.element))
    this.element = h("article", { class: "card" }, this.#header, this.#paper, linked)
  }

  async #read() {
    const { document, etag } = await api.get(this.path, fieldsWithNames(this.type), this.signal)
    const { data: resource, included = [] } = document
    this.title = nameOf(this.type, resource)
    return (this.shown = { resource, included, etag })
  }

  async #load() {
    const before = this.shown.etag
    await Promise.all([this.read(), ...this.parts.map((part) => part.load())])
    this.render()
    if (before) this.element.classList.toggle("flash", before !== this.shown.etag)
  }

  /** Read again what others have changed; a form keeps what it began with. @param {Change[]} changes */
  update(changes) {
    const { resource, included } = this.shown
    const isOwn = changes.some((change) => [change, ...change.links].some((other) => isSame(other, resource)))
    const isLinked = included.some((other) => changes.some((change) => isSame(other, change)))
    const affected = this.parts.flatMap((part) => part.affected?.(changes) ?? [])
    if (isOwn || isLinked || affected.length > 0) this.#follow()
  }

  async #loadOrTell() {
    try {
      await this.load()
      const isSending = this.#editor?.element.querySelector(".primary[aria-disabled]")
      if (this.#editor && !isSending && this.known !== this.shown.etag) this.#editor.message.textContent = CHANGED
    } catch (error) {
      if (!(error instanceof Failure && error.status === 404)) throw error
      if (this.#editor) this.#editor.message.textContent = GONE
      else await open()
    }
  }

  /** Show what was read last. */
  render() {
    const { type, title } = this
    const { resource } = this.shown
    const crumb = h("p", { class: "crumb" }, h("a", { href: `#${type.path}` }, type.plural))
    const heading = h("h1", { tabindex: "-1" }, h("bdi", {}, title))
    show(this.#header, h("div", {}, crumb, heading), mayWrite(type.name) && this.#actions)
    if (this.#editor) return
    const attributes = type.attributes.filter((attribute) => attribute !== type.display || !attribute.readOnly)
    const facts = attributes.flatMap((attribute) => [
      h("dt", {}, attribute.label),
      h("dd", {}, shown(attribute, resource.attributes[attribute.name])),
    ])
    const linked = links(type, false).flatMap((link) => this.#link(link))
    const list = this.#paper.querySelector("dl") ?? h("dl", { class: "facts" })
    show(list, ...linked, ...facts)
    show(this.#paper, list, this.authorship())
  }

  /** Return who has changed the resource, and when. */
  authorship() {
    const { attributes } = this.shown.resource
    const line = (/** @type {string} */ label, /** @type {string} */ verb) => {
      const [at, by] = ["at", "by"].map((name) => attributes[`${verb}_${name}`])
      const moment = this.type.authorship.find(({ name }) => name === `${verb}_at`)
      const time = moment && at && shown(moment, at)
      return (at || by) && h("span", {}, `${label} `, time, by && h("bdi", {}, ` by ${by}`))
    }
    return h("p", { class: "authorship" }, line("Changed", "updated"), line("Created", "created"))
  }

  /** Return the row of a to-one relationship, with what can be done to it. @param {Relationship} link */
  #link(link) {
    const { type } = this
    const { resource, included } = this.shown
    const linked = resource.relationships?.[link.name]?.data
    const label = linked ? "Change" : "Assign"
    const named = (/** @type {string} */ verb) => ({ "aria-label": `${verb}: ${link.label}` })
    const change = (/** @type {Target | null} */ target) =>
      this.perform(relink(type, link, [this.id], target, this.shown.etag)) // unless somebody else has changed it
    const choose = async () => {
      const target = await chooseResource(`Choose the ${link.label.toLowerCase()} of ${this.title}`, link.target)
      if (target) await change(target)
    }
    const assign = button(label, choose, { ...named(label), class: linked ? null : "primary" })
    const free = linked && button("Unassign", () => change(null), named("Unassign"))
    const buttons = mayLink(type, link) && h("span", { class: "actions" }, assign, free)
    const value = h("span", {}, linkTo(type, link, resource, included))
    return [h("dt", {}, link.label), h("dd", { class: "link" }, value, buttons)]
  }

  /** Read the card again when links were changed. Raises Error if that failed. @param {Promise<Failures>} changing */
  async perform(changing) {
    try {
      for (const reason of (await changing).values()) throw new Error(reason)
    } finally {
      await this.load().catch(() => {})
    }
  }

  /** Show the form in place of the attributes. */
  #openEditor() {
    const close = () => {
      if (this.#editor !== editor) return // somebody has left it while it was saved
      this.#editor = null
      this.render()
      this.#edit.focus()
    }
    const editor = this.#editor ?? editorOf(this, close)
    if (!this.#editor) {
      this.#editor = editor
      this.known = this.shown.etag
      this.#paper.replaceChildren(editor.element)
    }
    editor.focus()
  }

  /** Ask, saying what happens to what is linked, and delete the resource. */
  async #delete() {
    const { type, title } = this
    const { etag } = this.shown // of what is asked for
    const losses = this.parts.flatMap((part) => part.losses?.() ?? [])
    const help = [...losses, "This cannot be undone."].map((text) => h("p", {}, text))
    if (!(await ask(`Delete ${title}?`, help, "Delete", { isDanger: true }))) return
    try {
      await api.change("DELETE", this.path, { headers: { "If-Match": etag } })
      announce(`Deleted ${title}.`)
      navigate(type.path)
    } catch (error) {
      await this.load().catch(() => {})
      throw error
    }
  }
}

/**
 * Return the first of the resources that a card is linked to by a to-many relationship, as a part of the card.
 * @param {Card} card @param {Relationship} link @returns {Part}
 */
function section(card, link) {
  const type = typeOf(link.target)
  const path = `${card.path}/${link.name}`
  const newest = type.attributes.find(({ kind, name }) => kind === "time" && type.sort.includes(name))
  const sort = !type.writable && newest ? `-${newest.name}` : type.display?.name
  const state = new URLSearchParams(sort && type.sort.includes(sort.replace("-", "")) ? { sort } : {})
  const page = { "page[number]": "1", "page[size]": String(ROWS) }
  const query = { ...fieldsWithNames(type), ...Object.fromEntries(state), ...page }
  const inverse = /** @type {Relationship} */ (type.relationships.find((other) => other.name === link.inverse))
  let total = 0
  const add = async () => {
    const member = await chooseResource(`Assign ${withArticle(type.label)} to ${card.title}`, type.name)
    const target = { type: card.type.name, id: card.id, name: card.title }
    if (member) await card.perform(relink(type, inverse, [member.id], target))
  }
  const free = (/** @type {Resource} */ member) => {
    const label = { "aria-label": `Unassign ${nameOf(type, member)}` }
    return button("Unassign", () => card.perform(relink(type, inverse, [member.id], null)), label)
  }
  const columns = columnsOf(type, card.type.name)
  const isChangeable = mayLink(card.type, link)
  const buttons = { name: "", label: "", kind: "actions", cell: free }
  const table = new Table(type, isChangeable ? [...columns, buttons] : columns)
  const more = h("span", { class: "more" })
  const content = h("div")
  const assign = isChangeable && button("Assign", add, { "aria-label": `Assign: ${link.label}` })
  return {
    element: h("section", {}, h("header", {}, h("h2", {}, link.label), more, assign), content),
    affected: (changes) => table.affected(changes),
    losses() {
      const lost = `no longer ${total === 1 ? "has" : "have"} ${withArticle(labelOf(link.inverse))}`
      return link.writable && total > 0 ? [`${countedOf(type, total)} ${lost}.`] : []
    },
    async load() {
      const { document } = await api.get(path, query, card.signal)
      total = document.meta.total
      table.show(document)
      show(content, total > 0 ? table.element : h("p", { class: "empty" }, "None"))
      show(more, total > ROWS && h("a", { href: address(path, state) }, `All ${countedOf(type, total)}`))
    },
  }
}
