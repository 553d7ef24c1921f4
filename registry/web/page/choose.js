/** The dialog that asks for one resource, which can be created there. */

import { openDialog } from "./dialogs.js"
import { field } from "./dom.js"
import { FindBox } from "./find.js"
import { openCreation } from "./form.js"
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
    const answer = (/** @type {Resource} */ found) => {
      resolve({ type: name, id: found.id, name: nameOf(type, found) })
      dialog.close()
    }
    const box = new FindBox([type], (_, resource) => answer(resource), {
      label: type.label,
      placeholder: "Type to find…",
      onNew: (_, text) => openCreation(type, { text, isSingle: true, onCreated: answer }),
    })
    const dialog = openDialog(title, [field(type.label, box.input)])
    dialog.addEventListener("close", () => resolve(null))
    box.input.focus()
  })
}
