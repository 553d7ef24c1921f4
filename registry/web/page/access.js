/** The access token: asking for it, keeping it, and what it allows. */

import { api, Failure } from "./api.js"
import { openDialog } from "./dialogs.js"
import { button, buttons, byId, copy, h } from "./dom.js"
import { learn, readableTypes, typeOf } from "./types.js"

const STORED = "registry-token"

/**
 * Return what the root tells about types and access; null if the registry refuses the token. Raises other Failures.
 * @param {string | null} token
 */
async function verify(token) {
  api.token = token
  try {
    const response = await api.fetch("GET", "/", { asks: false })
    const { meta } = await response.json()
    return meta.access === null ? null : meta
  } catch (error) {
    api.token = null
    if (error instanceof Failure && (error.status === 401 || error.status === 400)) return null
    throw error
  }
}

/**
 * Learn what the root tells those who need no token, or have the one that is kept for this tab or then asked for.
 * @param {string} help
 */
export async function requireAccess(help) {
  let meta = await verify(sessionStorage.getItem(STORED))
  if (!meta) {
    sessionStorage.removeItem(STORED)
    meta = await askForToken(help)
  }
  const access = learn(meta)
  if (access) showAccess(access)
}

/** Ask for a token until one is accepted; return what the root tells. @param {string} help @returns {Promise<any>} */
function askForToken(help) {
  return new Promise((resolve) => {
    const form = /** @type {HTMLFormElement} */ (copy("token-form"))
    const [input, error] = /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("input, p"))
    form.addEventListener("submit", async (event) => {
      event.preventDefault()
      const entered = new FormData(form)
      const token = String(entered.get("token")).trim()
      error.textContent = ""
      try {
        // A header can contain nothing else.
        const meta = /^[!-~]+$/.test(token) ? await verify(token) : null
        if (!meta) throw new Error("The registry does not know this token. It may have expired.")
        if (entered.has("keep")) sessionStorage.setItem(STORED, token)
        dialog.close()
        resolve(meta)
      } catch (failure) {
        error.textContent = /** @type {Error} */ (failure).message
        input.focus()
      }
    })
    const dialog = openDialog("Access token needed", [h("p", {}, help), form], { stays: true })
    input.focus()
  })
}

/** Show the button that tells what the token allows. @param {Access} access */
function showAccess(access) {
  const list = (/** @type {string[]} */ names) => names.map((name) => typeOf(name).plural).join(", ") || "nothing"
  const [read, write] = [h("dd", {}, list(access.read)), h("dd", {}, list(access.write))]
  const facts = h("dl", {}, h("dt", {}, "See"), read, h("dt", {}, "Change"), write)
  const forget = () => {
    sessionStorage.removeItem(STORED)
    location.reload()
  }
  const open = () => openDialog(access.name, [facts, buttons(button("Forget the token", forget))])
  byId("access").replaceChildren(button(`Access: ${access.name}`, open, { class: "quiet" }))
}

/**
 * Return a function that asks for another token when the present one is refused; one question for all requests.
 * @param {() => unknown} onChanged called if it allows something else
 */
export function askAgain(onChanged) {
  /** @type {Promise<boolean> | null} */
  let asking = null
  const ask = async () => {
    const names = () => String(readableTypes().map((type) => type.name))
    const before = names()
    await requireAccess("The access token is no longer valid. Enter another one: nothing you typed is lost.")
    if (names() !== before) onChanged()
    return true
  }
  return () => (asking ??= ask().finally(() => (asking = null)))
}
