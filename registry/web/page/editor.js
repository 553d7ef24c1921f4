/** The form that edits a resource, and what it does when somebody else was faster. */

import { api, Failure } from "./api.js"
import { announce, ask, mayLeave } from "./dialogs.js"
import { button, grid, h } from "./dom.js"
import { Form } from "./form.js"
import { GONE } from "./texts.js"
import { plain, shown } from "./values.js"

/** @import { Card } from "./card.js" */

/** Return the form that edits the resource of a card. @param {Card} card @param {() => void} onClose */
export function editorOf(card, onClose) {
  let { shown: opened } = card
  /** @type {() => Promise<unknown>} */
  const stop = async () => (await mayLeave(form.element)) && onClose()
  const send = (/** @type {Record<string, any>} */ values) => save(values, opened)
  const form = new Form(card.type, opened.resource.attributes, "Save", send, button("Cancel", stop))
  form.element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return
    event.preventDefault() // which would close the question
    stop()
  })

  /**
   * Store what was changed, and close the form.
   * @param {Record<string, any>} values @param {Version} base what they were changed from
   */
  const save = async (values, base) => {
    try {
      if (Object.keys(values).length > 0) {
        const data = { type: card.type.name, id: card.id, attributes: values }
        await api.change("PATCH", card.path, { body: { data }, headers: { "If-Match": base.etag } })
        announce("Saved.")
      }
      await card.read()
      if (!form.goOn(Object.keys(values))) return onClose()
      card.known = card.shown.etag
      const attributes = { ...opened.resource.attributes, ...values }
      opened = { ...opened, resource: { ...opened.resource, attributes } }
    } catch (error) {
      const status = error instanceof Failure ? error.status : 0
      if (status === 404) form.message.textContent = GONE
      else if (status === 412) await resolve(values, base)
      else throw error
    }
  }

  /**
   * Show what was typed beside what somebody else has stored, and store what is chosen; all, if these are different
   * attributes. Until then, the form keeps its base.
   * @param {Record<string, any>} mine @param {Version} base
   */
  const resolve = async (mine, base) => {
    const current = await card.read()
    const [before, theirs] = [base.resource.attributes, current.resource.attributes]
    const isConflict = (/** @type {Attribute} */ { name }) =>
      name in mine && ![before[name], mine[name]].includes(theirs[name])
    const attributes = card.type.attributes.filter(isConflict)
    if (attributes.length === 0) return save(mine, current)
    /** @type {(attribute: Attribute, label: string, value: any, isMine: boolean) => Node} */
    const choice = (attribute, label, value, isMine) => {
      const state = { name: attribute.name, value: String(isMine), checked: isMine }
      const name = { class: "check", "aria-label": `${label}: ${plain(attribute, value)}` }
      return h("label", name, h("input", { type: "radio", ...state }), shown(attribute, value))
    }
    const rows = attributes.map((attribute) => [
      attribute.label,
      choice(attribute, "Yours", mine[attribute.name], true),
      choice(attribute, "Theirs", theirs[attribute.name], false),
    ])
    const choices = grid(["Attribute", "Yours", "Theirs"], rows)
    const help = h("p", {}, "This was changed after you opened it. Choose what to keep.")
    const content = [help, choices, card.authorship()]
    const chosen = await ask("This was changed while you were editing", content, "Save what I chose")
    const kept = Object.entries(mine).filter(([name]) => chosen?.get(name) !== "false")
    if (chosen) await save(Object.fromEntries(kept), current)
  }
  return form
}
