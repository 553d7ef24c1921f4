/** The view of a collection: its table, with what can be done to all of it. */

import { button, h } from "./dom.js"
import { openCreation } from "./form.js"
import { download, Table } from "./table.js"
import { texts } from "./texts.js"

/** @import { App } from "./app.js" */
/** @import { Type } from "./description.js" */
/** @import { Change } from "./feed.js" */

export class List {
  element = h("section", { class: "list" })

  /**
   * @param {App} app
   * @param {Type} type
   * @param {string} path of the collection
   * @param {URLSearchParams} state
   * @param {AbortSignal} signal
   * @param {Type} [parent] the type of the resource that the collection belongs to
   */
  constructor(app, type, path, state, signal, parent) {
    this.app = app
    this.type = type
    this.parent = parent
    this.title = type.plural
    this.table = new Table(app, type, path, state, signal, { hidden: parent?.name })
  }

  /** Read the page, and later the count. Raises Failure, AbortError. */
  async load() {
    const { app, type, parent, table } = this
    const hasRows = await table.load()
    const isFiltered = [...table.state.keys()].some((one) => one.startsWith("filter"))
    const count = h("span", { class: "count" })
    const mayAdd = !parent && app.mayWrite(type.name)
    const add = button(texts.add(type.label), () => openCreation(app, type), { class: "primary" })
    const filter = button(texts.filter, () => table.chooseFilter())
    const take = button(texts.download, () => download(app, table, take))
    const bring = button(texts.import, () => app.import(type))
    const up = table.path.split("/").slice(0, 3).join("/")
    const crumb = parent
      ? h("p", { class: "crumb" }, h("a", { href: `#${up}` }, parent.label))
      : null
    const heading = h("h1", { tabindex: "-1" }, type.plural, " ", count)
    const actions = h(
      "div",
      { class: "actions" },
      filter,
      hasRows ? take : null,
      mayAdd ? bring : null,
      mayAdd ? add : null,
    )
    const blank = isFiltered ? [h("p", {}, texts.noMatch)] : [h("p", {}, texts.empty(type.plural))]
    if (!isFiltered && mayAdd) blank.push(h("p", {}, texts.emptyHelp))
    this.element.replaceChildren(
      h("header", {}, h("div", {}, crumb, heading), actions),
      ...[table.chips(), h("div", { role: "status" }, table.newer)].filter((one) => one !== null),
      hasRows ? table.region : h("div", { class: "blank" }, ...blank),
      ...[table.pages()].filter((one) => one !== null),
    )
    const show = async () => {
      count.textContent = texts.counted(await table.count(), type.label, type.plural)
    }
    // A heavy filter may be too much to count, and the table does not need it.
    show().catch(() => {})
  }

  /** @param {Change[]} changes */
  update(changes) {
    this.table.update(changes)
  }
}
