/** The dialog that asks for one resource, which can be created there. */

import { openDialog } from "./dialogs.js"
import { h } from "./dom.js"
import { FindBox } from "./find.js"
import { openCreation } from "./form.js"
import { texts } from "./texts.js"
import { nameOf, typeOf } from "./types.js"

/** @import { Resource } from "./api.js" */
/** @import { Target } from "./operations.js" */

/**
 * Ask for a resource; return it, or null if nobody chooses any.
 * @param {string} title
 * @param {string} name of its type
 * @returns {Promise<Target | null>}
 */
export function chooseResource(title, name) {
  return new Promise((resolve) => {
    const type = typeOf(name)
    let isCreating = false
    const answer = (/** @type {Resource | null} */ found) =>
      resolve(found && { type: name, id: found.id, name: nameOf(type, found) })
    const box = new FindBox(
      [type],
      (_, resource) => {
        answer(resource)
        dialog.close()
      },
      {
        label: type.label,
        placeholder: texts.choose,
        onNew: (_, text) => {
          isCreating = true
          dialog.close()
          openCreation(type, { text, isSingle: true, onCreated: answer }).addEventListener("close", () => answer(null))
        },
      },
    )
    const label = h("label", { for: box.input.id }, type.label)
    const dialog = openDialog(title, [h("div", { class: "field" }, label, box.element)])
    dialog.addEventListener("close", () => isCreating || answer(null))
    box.input.focus()
  })
}
