/** The card of one resource: what it is, whom it is linked to, and everything to do with it. */

import { Failure, isSame } from "./api.js"
import { fieldsWithNames, labelOf, nameOf } from "./description.js"
import { announce, announceFailure, ask, button, buttons, grid, h } from "./dom.js"
import { isBusy, openDialog, refocus, whileBusy } from "./dom.js"
import { FindBox } from "./find.js"
import { Inputs, askToLeave, openCreation } from "./form.js"
import { countOf, linkTo, Table } from "./table.js"
import { texts } from "./texts.js"
import { plain, shown } from "./values.js"

/** @import { Identifier, Resource } from "./api.js" */
/** @import { App } from "./app.js" */
/** @import { Attribute, Relationship, Type } from "./description.js" */
/** @import { Change } from "./feed.js" */
/** @typedef {{ attributes: Record<string, any>, etag: string }} Version */

const ROWS = 10

/** A card, which is a view of the page. */
export class Card {
  element = h("article", { class: "card" })

  /** The form, while the resource is edited. @type {Inputs | null} */
  #inputs = null

  /** @type {Table[]} */
  #tables = []

  /**
   * @param {App} app
   * @param {Type} type
   * @param {string} id
   * @param {AbortSignal} signal
   */
  constructor(app, type, id, signal) {
    this.app = app
    this.type = type
    this.path = `${type.path}/${id}`
    this.id = id
    this.signal = signal
  }

  /** Whether something was entered that would be lost. */
  get isDirty() {
    return this.#inputs?.isDirty ?? false
  }

  get title() {
    return this.name
  }

  /** Read the resource. Raises Failure, AbortError. */
  async load() {
    await this.#read()
    this.#render()
    await this.#loadTables()
  }

  /**
   * Read the resource; return its version. Raises Failure, AbortError.
   * @returns {Promise<Version>}
   */
  async #read() {
    const names = [...this.type.attributes, ...this.type.authorship].map((one) => one.name)
    const query = fieldsWithNames(this.app, this.type, names)
    const { document, etag } = await this.app.api.get(this.path, query, this.signal)
    this.resource = /** @type {Resource} */ (document.data)
    this.included = document.included ?? []
    this.etag = etag
    this.name = nameOf(this.type, this.resource)
    return { attributes: this.resource.attributes, etag }
  }

  /**
   * Read again what others have changed; a form keeps what it began with.
   * @param {Change[]} changes
   */
  async update(changes) {
    const isThis = (/** @type {Identifier} */ one) =>
      isSame(one, { type: this.type.name, id: this.id })
    const isLinked = (/** @type {Identifier} */ one) =>
      this.included?.some((other) => isSame(one, other)) ||
      this.#tables.some((table) => table.shows(one))
    const isMine = changes.some(isThis)
    if (!isMine && !changes.some((one) => isLinked(one) || one.links.some(isThis))) return
    try {
      const [before, focused] = [this.etag, document.activeElement]
      await this.#read()
      if (this.#inputs) {
        if (isMine) this.#inputs.message.textContent = texts.changedMeanwhile
        return
      }
      this.#render()
      this.element.classList.toggle("flash", before !== this.etag)
      await this.#loadTables()
      if (focused && !focused.isConnected) refocus(focused)
    } catch (error) {
      if (!(error instanceof Failure && error.status === 404)) return
      if (this.#inputs) this.#inputs.message.textContent = texts.conflictGone
      else this.app.show()
    }
  }

  #render() {
    const { app, type, resource } = this
    if (!resource) return
    const mayWrite = type.writable && app.mayWrite(type.name)
    const edit = button(texts.edit, () => this.#edit(), { class: "edit" })
    const remove = button(texts.delete, () => this.#delete(), { class: "quiet danger" })
    const attributes = type.attributes.filter((one) => one !== type.display || !one.readOnly)
    const facts = attributes.flatMap((one) => [
      h("dt", {}, one.label),
      h("dd", {}, shown(one, resource.attributes[one.name])),
    ])
    const links = app.links(type, false)
    this.facts = h("dl", { class: "facts" }, ...links.flatMap((one) => this.#link(one)), ...facts)
    this.many = h("div", { class: "linked" })
    const crumb = h("a", { href: `#${type.path}` }, type.plural)
    const heading = h("h1", { tabindex: "-1" }, h("bdi", {}, this.name))
    const actions = mayWrite ? h("div", { class: "actions" }, edit, remove) : null
    const header = h(
      "header",
      {},
      h("div", {}, h("p", { class: "crumb" }, crumb), heading),
      actions,
    )
    this.element.replaceChildren(
      header,
      h("div", { class: "paper" }, this.facts, this.#authorship()),
      this.many,
    )
  }

  /** Return who has changed the resource, and when. */
  #authorship() {
    const facts = new Map(this.type.authorship.map((one) => [one.name, one]))
    const line = (/** @type {string} */ label, /** @type {string} */ verb) => {
      const [at, by] = [facts.get(`${verb}_at`), facts.get(`${verb}_by`)]
      const time = at && this.resource?.attributes[at.name]
      const name = by && this.resource?.attributes[by.name]
      if (!time && !name) return null
      const author = name ? h("bdi", {}, ` ${texts.by(name)}`) : null
      return h("span", {}, `${label} `, at && time ? shown(at, time) : null, author)
    }
    const changed = line(texts.changedAt, "updated")
    return h("p", { class: "authorship" }, changed, line(texts.createdAt, "created"))
  }

  /**
   * Return the row of a to-one relationship, with what can be done to it.
   * @param {Relationship} link
   */
  #link(link) {
    const { app, type, resource } = this
    if (!resource) return []
    const linked = resource.relationships?.[link.name]?.data
    const mayWrite = link.writable && app.mayWrite(type.name) && app.mayWrite(link.target)
    const label = linked ? texts.change : texts.assign
    const named = (/** @type {string} */ verb) => ({ "aria-label": `${verb}: ${link.label}` })
    const assign = button(label, () => this.#assign(link), {
      ...named(label),
      class: linked ? "" : "primary",
    })
    const free = button(
      texts.unassign,
      () => this.#change({ [link.name]: null }),
      named(texts.unassign),
    )
    const buttons = mayWrite ? h("span", { class: "actions" }, assign, linked ? free : null) : null
    const shown = linkTo(app, type, link, resource, this.included ?? [])
    return [h("dt", {}, link.label), h("dd", { class: "link" }, h("span", {}, shown), buttons)]
  }

  /**
   * Ask for the resource that is to be linked.
   * @param {Relationship} link
   */
  #assign(link) {
    const target = this.app.typeOf(link.target)
    this.#ask(texts.assignTo(this.name ?? "", link.label), target, (found) =>
      this.#change({ [link.name]: { type: target.name, id: found.id } }, nameOf(target, found)),
    )
  }

  /**
   * Open a box that finds a resource, or creates it.
   * @param {string} title
   * @param {Type} target
   * @param {(resource: Resource) => unknown} onPick
   */
  #ask(title, target, onPick) {
    const { app } = this
    const box = new FindBox(
      app,
      [target],
      ({ resource, name }) => {
        dialog.close()
        if (resource) onPick(resource)
        else openCreation(app, target, { onCreated: onPick, text: name })
      },
      { label: target.label, placeholder: texts.choose, canCreate: true },
    )
    const label = h("label", { for: box.input.id }, target.label)
    const dialog = openDialog(title, [h("div", { class: "field picker" }, label, box.element)])
    box.input.focus()
  }

  /**
   * Change links of the resource, unless somebody else has changed it.
   * @param {Record<string, Identifier | null>} links
   * @param {string} [target] the name of what it is linked to
   */
  async #change(links, target) {
    const entries = Object.entries(links).map(([name, data]) => [name, { data }])
    const name = this.name ?? ""
    const text = target ? texts.assigned(name, target) : texts.unassigned(name)
    await this.#perform(() => this.#patch({ relationships: Object.fromEntries(entries) }), text)
  }

  /**
   * Change the resource, unless somebody else has changed it.
   * @param {object} members of the resource object
   * @param {string} [etag] of the version that is changed
   */
  #patch(members, etag = this.etag) {
    const data = { type: this.type.name, id: this.id, ...members }
    const headers = { "If-Match": etag ?? "*" }
    return this.app.api.change("PATCH", this.path, { body: { data }, headers })
  }

  /**
   * Do something to the links of the resource, tell whether it worked, and read the card again.
   * @param {() => Promise<unknown>} action
   * @param {string} text
   */
  async #perform(action, text) {
    try {
      await action()
      announce(text)
    } catch (error) {
      announceFailure(error)
    }
    await this.load().catch(() => {})
    this.element.querySelector("h1")?.focus()
  }

  /** Show the tables of what is linked to the resource. */
  async #loadTables() {
    this.#tables = []
    const sections = this.app.links(this.type, true).map((link) => this.#section(link))
    await Promise.all(sections.map((one) => one.loaded))
    this.many?.replaceChildren(...sections.map((one) => one.element))
  }

  /**
   * Return the section of a to-many relationship.
   * @param {Relationship} link
   */
  #section(link) {
    const { app } = this
    const target = app.typeOf(link.target)
    const path = `${this.path}/${link.name}`
    const newest = target.attributes.find((one) => one.kind === "time" && target.canSort(one.name))
    const state = new URLSearchParams(!target.writable && newest ? { sort: `-${newest.name}` } : {})
    const mayWrite = link.writable && app.mayWrite(this.type.name) && app.mayWrite(link.target)
    const free = (/** @type {Resource} */ one) => {
      const name = nameOf(target, one)
      return button(texts.unassign, () => this.#member("DELETE", path, one), {
        "aria-label": texts.unassignName(name),
      })
    }
    const actions = mayWrite ? free : undefined
    const table = new Table(app, target, path, state, this.signal, {
      hidden: this.type.name,
      size: ROWS,
      actions,
    })
    this.#tables.push(table)
    const assign = () =>
      this.#ask(`${this.name}: ${link.label}`, target, (one) => this.#member("POST", path, one))
    const label = `${texts.assign}: ${link.label}`
    const add = mayWrite ? button(texts.assign, assign, { "aria-label": label }) : null
    const more = h("span", { class: "more" })
    const heading = h("header", {}, h("h2", {}, link.label), more, add)
    const element = h("section", {}, heading, table.region)
    const load = async () => {
      const hasRows = await table.load()
      if (!hasRows) table.region.replaceChildren(h("p", { class: "empty" }, texts.noLinks))
      if (table.page?.after) {
        const all = texts.showAll(await table.count())
        more.append(h("a", { href: app.address(path, state) }, all))
      }
    }
    return { element, loaded: load() }
  }

  /**
   * Link a resource to this one, or end that.
   * @param {"POST" | "DELETE"} method
   * @param {string} path of the relationship
   * @param {Resource} member
   */
  async #member(method, path, member) {
    const linkage = path.replace(/\/([^/]+)$/, "/relationships/$1")
    const [name, own] = [nameOf(this.app.typeOf(member.type), member), this.name ?? ""]
    const body = { data: [{ type: member.type, id: member.id }] }
    await this.#perform(
      () => this.app.api.change(method, linkage, { body }),
      method === "POST" ? texts.assigned(name, own) : texts.unassigned(name),
    )
  }

  /** Show the form in place of the attributes. */
  #edit() {
    const { app, type, resource } = this
    if (!resource) return
    if (this.#inputs) return this.#inputs.focus()
    const inputs = new Inputs(app, type, resource.attributes)
    this.#inputs = inputs
    const base = { attributes: resource.attributes, etag: this.etag ?? "*" }
    const save = h("button", { class: "primary" }, texts.save)
    const stop = async () => {
      if (inputs.isDirty && !(await askToLeave())) return
      this.#close()
    }
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault()
      if (isBusy(save)) return
      const values = inputs.read()
      if (values) await whileBusy(save, () => this.#save(inputs, values, base))
    }
    const keydown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape") stop()
    }
    const footer = buttons(button(texts.cancel, stop), save)
    const form = h(
      "form",
      { submit, keydown, novalidate: true, class: "facts" },
      inputs.element,
      footer,
    )
    this.facts?.replaceWith(form)
    inputs.focus()
  }

  #close() {
    this.#inputs = null
    this.#render()
    this.#loadTables()
    const edit = this.element.querySelector("button.edit")
    if (edit instanceof HTMLElement) edit.focus()
  }

  /**
   * Store what was changed, and close the form.
   * @param {Inputs} inputs
   * @param {Record<string, any>} values
   * @param {Version} base what they were changed from
   */
  async #save(inputs, values, base) {
    try {
      if (Object.keys(values).length > 0) {
        await this.#patch({ attributes: values }, base.etag)
        announce(texts.saved)
      }
      await this.#read()
      this.#close()
    } catch (error) {
      const status = error instanceof Failure ? error.status : 0
      if (status === 412) await this.#resolve(inputs, values, base).catch((one) => inputs.show(one))
      else if (status === 404) inputs.message.textContent = texts.conflictGone
      else inputs.show(error)
    }
  }

  /**
   * Show what was typed beside what somebody else has stored, and store what is chosen; all, if
   * these are different attributes. Until then, the form keeps its base.
   * @param {Inputs} inputs
   * @param {Record<string, any>} mine
   * @param {Version} base
   */
  async #resolve(inputs, mine, base) {
    const current = await this.#read()
    const theirs = current.attributes
    const isConflict = (/** @type {Attribute} */ { name }) =>
      name in mine && ![base.attributes[name], mine[name]].includes(theirs[name])
    const attributes = this.type.attributes.filter(isConflict)
    if (attributes.length === 0) return this.#save(inputs, mine, current)
    /** @type {(one: Attribute, label: string, value: any, isMine: boolean) => Node} */
    const choice = (one, label, value, isMine) => {
      const state = { name: one.name, value: String(isMine), checked: isMine }
      const input = h("input", { type: "radio", ...state })
      const attributes = { class: "check", "aria-label": `${label}: ${plain(one, value)}` }
      return h("label", attributes, input, shown(one, value))
    }
    const rows = attributes.map((one) => [
      one.label,
      choice(one, texts.yours, mine[one.name], true),
      choice(one, texts.theirs, theirs[one.name], false),
    ])
    const author = this.#authorship()
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault()
      const chosen = new FormData(form)
      const kept = Object.entries(mine).filter(([name]) => chosen.get(name) !== "false")
      dialog.close()
      await this.#save(inputs, Object.fromEntries(kept), current)
    }
    const form = h(
      "form",
      { submit },
      h("p", {}, texts.conflictHelp),
      grid(["", texts.yours, texts.theirs], rows),
      author,
      buttons(
        button(texts.cancel, () => dialog.close()),
        h("button", { class: "primary" }, texts.keepChosen),
      ),
    )
    const dialog = openDialog(texts.conflictTitle, [form])
  }

  /** Ask, saying what happens to what is linked, and delete the resource. */
  async #delete() {
    const { app, type, name = "" } = this
    const links = app.links(type, true).filter((one) => one.writable)
    try {
      const linked = await Promise.all(links.map((one) => this.#loss(one)))
      const help = [...linked.filter(Boolean), texts.deleteFinal].map((one) => h("p", {}, one))
      if (!(await ask(texts.deleteQuestion(name), help, texts.delete, { isDanger: true }))) return
      await app.api.change("DELETE", this.path, { headers: { "If-Match": this.etag ?? "*" } })
      announce(texts.deletedName(name))
      app.navigate(type.path, new URLSearchParams())
    } catch (error) {
      announceFailure(error)
      await this.load().catch(() => {})
    }
  }

  /**
   * Return a sentence on the resources that lose a link by the deletion; empty if there are none.
   * @param {Relationship} link
   */
  async #loss(link) {
    const target = this.app.typeOf(link.target)
    const count = await countOf(this.app, `${this.path}/${link.name}`, {}, this.signal)
    if (count === 0) return ""
    const inverse = labelOf(link.inverse)
    return texts.deleteLinked(texts.counted(count, target.label, target.plural), inverse)
  }
}
