/** The import of a CSV file, which the service reads: what its columns become, its check, and the report. */

import { api, isAborted, piecesOf } from "./api.js"
import { openDialog } from "./dialogs.js"
import { button, buttons, copy, field, grid, h } from "./dom.js"
import { saveFile } from "./list.js"
import { refresh } from "./router.js"
import { counted, NONE, readable } from "./texts.js"
import { countedOf, labelOf, linkable, typeOf, writableTypes } from "./types.js"

/** What the service has told of a file. @typedef {{ meta: any, errors: ErrorObject[] }} Report */

const MAX_SHOWN = 100
const MAX_ERRORS = 10_000
const MAX_COLUMNS = 200
const HEAD_BYTES = 65_536
const MAX_SAMPLE = 500
const DELIMITERS = [",", ";", "\t", "|"]
const EFFECTS = { created: "New", updated: "Changed", unchanged: "Unchanged" }
const STOPPED =
  "The import has stopped. Import the file again to continue: what is stored stays, nothing is stored twice."
const STOPPED_CREATING =
  "The import has stopped. Some rows may be stored: find out which before you import the others, as each becomes new."
const CHANGED = "The file has changed since you chose it. Open this dialog again, and choose it again."
const FORMULA = /^[=+\-@\t\r]/

/**
 * Return the cells of a line of a file, divided as the service does: into the most cells.
 * @param {string} line @param {string[]} delimiters
 */
function cellsOf(line, delimiters) {
  const divided = delimiters.map((delimiter) => {
    const mark = `\\u${delimiter.charCodeAt(0).toString(16).padStart(4, "0")}`
    const cell = new RegExp(`("(?:[^"]|"")*"|[^${mark}]*)(?:${mark}|$)`, "g")
    return [...`${line}${delimiter}`.matchAll(cell)].slice(0, -1).map((found) => found[1])
  })
  const widest = divided.reduce((most, cells) => (cells.length > most.length ? cells : most))
  return widest.map((cell) => (/^"(.*)"$/.exec(cell)?.[1] ?? cell).replaceAll('""', '"').trim())
}

/** Return what columns can become: attributes of a type, and of what it is linked to. @param {Type} type */
function columnNames(type) {
  const named = (/** @type {Type} */ of, /** @type {string} */ prefix) => {
    const attributes = of.attributes.filter((attribute) => !attribute.readOnly || (prefix && attribute === of.display))
    return ["id", ...attributes.map(({ name }) => name)].map((name) => prefix + name)
  }
  return [...named(type, ""), ...linkable(type).flatMap((link) => named(typeOf(link.target), `${link.name}.`))]
}

/** @param {string} text */
const wordsOf = (text) => Array.from(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])

/**
 * Return the column that a header means by its words; "" if none. `Serial number` is the serial.
 * @param {string} header @param {string[]} names
 */
function columnFor(header, names) {
  const words = wordsOf(header)
  const meant = names.filter((name) => wordsOf(name.replaceAll("_", " ")).every((word) => words.includes(word)))
  const exact = names.find((name) => wordsOf(name).join("") === words.join(""))
  return exact ?? meant.sort((name, other) => wordsOf(other).length - wordsOf(name).length)[0] ?? ""
}

/** Open the dialog that imports a file. @param {Type} preferred @param {File} [dropped] */
export function openImport(preferred, dropped) {
  const form = copy("import-form")
  const [controls, place] = /** @type {Iterable<HTMLFieldSetElement>} */ (form.children)
  const [kind, charset] = form.querySelectorAll("select")
  const [files] = form.querySelectorAll("input")
  const stop = new AbortController()
  kind.append(...writableTypes().map((type) => new Option(type.plural, type.name, false, type === preferred)))
  for (const name of form.querySelectorAll("small")) name.textContent = dropped?.name ?? ""
  const chosen = () => files.files?.[0] ?? dropped
  const read = async () => {
    const file = chosen()
    if (!file) return
    const bytes = await file.slice(0, HEAD_BYTES).arrayBuffer()
    if (file !== chosen()) return // another one was chosen meanwhile
    const decoded = new TextDecoder(charset.value).decode(bytes, { stream: true })
    const separator = /^sep=([^"\r\n])[\r\n]+/i.exec(decoded)
    const [head, ...sample] = decoded.slice(separator?.[0].length ?? 0).split(/\r\n|\r|\n/)
    const headers = cellsOf(head, separator ? [separator[1]] : DELIMITERS)
    if (headers.length > MAX_COLUMNS) {
      const text = `This file has more than ${MAX_COLUMNS} columns. Remove those that are not needed.`
      return place.replaceChildren(alertOf(text))
    }
    const encoded = file.slice(0, file.size, `text/csv; charset=${charset.value}`)
    const job = jobOf(typeOf(kind.value), headers, encoded, stop.signal, controls)
    const lines = h("bdi", {}, sample.slice(0, 3).join("\n").slice(0, MAX_SAMPLE))
    const preview = h("pre", { class: "scrolls", tabindex: "0", "aria-label": "First rows" }, lines)
    place.replaceChildren(preview, job)
  }
  controls.addEventListener("change", () => read())
  const dialog = openDialog("Import CSV", [form], { kind: "wide" })
  dialog.addEventListener("close", () => {
    stop.abort()
    refresh()
  })
  read()
}

/** @param {string} text */
const alertOf = (text) => h("p", { role: "alert", class: "error" }, text)

/**
 * Return the choices for one file, with its check and its import.
 * @param {Type} type @param {string[]} headers @param {Blob} file @param {AbortSignal} signal
 * @param {HTMLFieldSetElement} others the controls above
 */
function jobOf(type, headers, file, signal, others) {
  const result = h("div", { role: "status", class: "result" })
  const ignored = h("p", { class: "ignored" })
  const key = h("select")
  const names = columnNames(type)
  const selects = headers.map((header, index) => {
    const meant = columnFor(header, names)
    const options = names.map((name) => new Option(labelOf(name), name, false, name === meant))
    return h("select", { id: `import-${index}`, change: () => showKeys() }, new Option("Leave out", ""), ...options)
  })

  /** Show what can identify a row, and what is left out. */
  const showKeys = () => {
    const { attributes, display } = type
    const own = selects.map(({ value }) => value).filter((name) => name && !name.includes("."))
    const email = attributes.find(({ kind }) => kind === "email")
    const unique = attributes.filter((attribute) => attribute.unique).map(({ name }) => name)
    const chosen = [...unique, "id", email?.name, display?.name].find((name) => name && own.includes(name))
    const options = own.map((name) => new Option(labelOf(name), name, false, name === chosen))
    if (own.length > 1 && own.length < 5) {
      options.push(new Option(own.map(labelOf).join(" + "), own.join(","), false, !chosen))
    }
    key.replaceChildren(...options, new Option("Don't match; create every row", ""))
    const left = headers.filter((_, index) => !selects[index].value)
    ignored.textContent = left.length > 0 ? `Left out: ${left.join(", ")}` : ""
  }

  /** @returns {Query} */
  const queryOf = () => {
    const named = headers.map((header, index) => [`rows[map][${header}]`, selects[index].value])
    const changed = named.filter(([, value], index) => value !== headers[index])
    return { ...Object.fromEntries(changed), ...(key.value ? { "rows[key]": key.value } : { "rows[create]": "true" }) }
  }

  /**
   * Send the file, and show what the service tells.
   * @param {boolean} isDryRun @param {number} [total] how many rows there are
   */
  const run = async (isDryRun, total) => {
    const bar = h("progress", { max: total, "aria-label": "Progress" })
    const words = h("p")
    show(bar, words)
    others.disabled = controls.disabled = true
    try {
      const report = await send(isDryRun, (rows) => {
        if (total) bar.value = rows
        words.textContent = isDryRun ? `Checked ${counted(rows, "row")}.` : `Imported ${counted(rows, "row")}.`
      })
      tell(report, isDryRun)
    } catch (error) {
      const isReadable = await file.slice(0, 1).arrayBuffer().then(Boolean, () => false)
      const { message } = isReadable ? /** @type {Error} */ (error) : new Error(CHANGED)
      if (!isAborted(error)) show(alertOf(message))
    } finally {
      others.disabled = controls.disabled = false
    }
  }

  /**
   * Send the file; return the report. Raises Failure, AbortError.
   * @param {boolean} isDryRun @param {(rows: number) => void} onProgress
   */
  const send = async (isDryRun, onProgress) => {
    /** @type {Report} */
    const report = { meta: { rows: 0, invalid: 0 }, errors: [] }
    const sent = { "Content-Type": file.type, ...(isDryRun ? { Prefer: "tx=rollback" } : {}) }
    const options = { query: queryOf(), file, headers: sent, signal, accept: "*/*" }
    for await (const lines of piecesOf(api.stream("POST", type.path, options), "\n")) {
      for (const { meta, errors = [] } of lines.map((line) => JSON.parse(line))) {
        report.meta = meta ?? report.meta
        if (report.errors.length < MAX_ERRORS) report.errors.push(...errors)
      }
      onProgress(report.meta.rows)
    }
    return report
  }

  /** @param {Report} report @param {boolean} isDryRun */
  const tell = ({ meta, errors }, isDryRun) => {
    const good = meta.rows - meta.invalid
    const counts = Object.entries(EFFECTS).flatMap(([effect, label]) =>
      Object.entries(meta[effect] ?? {}).map(([name, count]) => `${label}: ${countedOf(typeOf(name), Number(count))}.`),
    )
    const found = isDryRun ? `${counted(good, "row")} can be imported.` : `Imported ${counted(good, "row")}.`
    const [first] = errors
    const invalid = meta.invalid > 0 ? `${counted(meta.invalid, "row")} cannot be imported. ` : ""
    const line = first?.source?.line ? `Line ${first.source.line}: ` : ""
    const apply = button(`Import ${counted(good, "row")}`, () => run(false, meta.rows), { class: "primary" })
    const mayApply = isDryRun && meta.complete && good > 0
    const stopped = isDryRun || key.value ? STOPPED : STOPPED_CREATING
    show(
      !meta.complete && alertOf(stopped),
      h("p", { class: "done" }, [found, ...counts].join(" ")),
      first && h("p", { class: "error" }, invalid, line, readable(first.detail)),
      mayApply && buttons(apply),
      first && tableOf(errors),
    )
    if (mayApply) apply.focus()
  }

  /** @param {ErrorObject[]} errors */
  const tableOf = (errors) => {
    const heads = ["Line", "Column", "Error"]
    const rows = errors.map(({ source, detail }) => [source?.line, source?.column, readable(detail)])
    const quoted = (/** @type {unknown} */ cell) => {
      const text = String(cell ?? "")
      return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`
    }
    const save = () => {
      const lines = [heads, ...rows].map((cells) => cells.map(quoted).join(","))
      saveFile(new Blob([`\ufeff${lines.join("\r\n")}\r\n`], { type: "text/csv" }), "errors.csv")
    }
    const more = errors.length - MAX_SHOWN
    const rest = more > 0 && h("p", {}, `and ${counted(more, "more error")}`)
    return h("div", {}, grid(heads, rows.slice(0, MAX_SHOWN)), rest, buttons(button("Download errors", save)))
  }

  /** @param {...Child} content */
  const show = (...content) => {
    result.replaceChildren(h("div", {}, ...content))
    result.scrollIntoView({ block: "nearest" })
  }

  const labels = selects.map(({ id }, index) => h("label", { for: id }, h("bdi", {}, headers[index] || NONE)))
  const rows = selects.map((select, index) => [labels[index], select])
  const check = button("Check", () => run(true), { class: "primary" })
  const choices = [grid(["Column of the file", "Becomes"], rows), field("Identify existing rows by", key)]
  const outdated = { change: () => result.replaceChildren() } // what was checked is no longer what is chosen
  const controls = h("fieldset", outdated, ...choices, buttons(ignored, check))
  showKeys()
  return h("div", {}, controls, result)
}
