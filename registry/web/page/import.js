/** The import of a CSV file: what its columns become, its check, and its progress. */

import { isAborted } from "./api.js"
import { decode, parseCsv, unescaped } from "./csv.js"
import { labelOf } from "./description.js"
import { ask, button, buttons, failed, field, grid, h, openDialog } from "./dom.js"
import { ID, Importer, keyOf } from "./importer.js"
import { texts } from "./texts.js"

/** @import { App } from "./app.js" */
/** @import { CsvRow } from "./csv.js" */
/** @import { Type } from "./description.js" */
/** @import { Child } from "./dom.js" */
/** @import { Column, Defect, OnProgress } from "./importer.js" */

const MAX_SHOWN = 100
const MAX_BYTES = 20_000_000

/** Each column of a file has a choice of all attributes. */
const MAX_COLUMNS = 200

/** Characters of a cell in the list of columns. */
const MAX_SAMPLE = 100

/**
 * Return what the columns of a type can be called in a file.
 * @param {App} app
 * @param {Type} type
 * @returns {Omit<Column, "index">[]}
 */
function columnsOf(app, type) {
  /** @type {(of: Type, link: string) => Omit<Column, "index">[]} */
  const named = (of, link) => {
    const prefix = link ? `${link}.` : ""
    const attributes = of.attributes.filter((one) => !one.readOnly || (link && one === of.display))
    return [null, ...attributes].map((attribute) => {
      const name = `${prefix}${attribute?.name ?? ID}`
      return { name, link, type: of, attribute }
    })
  }
  const links = app.links(type, false).filter((one) => app.mayWrite(one.target))
  return [...named(type, ""), ...links.flatMap((one) => named(app.typeOf(one.target), one.name))]
}

/**
 * Open the dialog that imports a file.
 * @param {App} app
 * @param {Type} preferred
 * @param {File} [dropped]
 */
export function openImport(app, preferred, dropped) {
  const types = app.types.filter((one) => app.mayWrite(one.name))
  const options = types.map((one) =>
    h("option", { value: one.name, selected: one === preferred }, one.plural),
  )
  const kind = h("select", { id: "import-type" }, ...options)
  const input = h("input", { type: "file", id: "import-file", accept: ".csv,text/csv" })
  const place = h("div")
  const stop = new AbortController()
  let file = dropped
  const read = async () => {
    const type = types.find((one) => one.name === kind.value)
    if (!file || !type) return
    try {
      if (file.size > MAX_BYTES) throw new Error(texts.importTooLarge)
      const rows = parseCsv(await decode(file))
      if (rows.length < 2) throw new Error(texts.importEmpty)
      if (rows[0].cells.length > MAX_COLUMNS) throw new Error(texts.importTooWide(MAX_COLUMNS))
      const plan = new Plan(app, type, rows, stop.signal, (busy) => (controls.disabled = busy))
      place.replaceChildren(plan.element)
    } catch (error) {
      place.replaceChildren(h("div", { role: "alert" }, failed(error)))
    }
  }
  input.addEventListener("change", () => {
    file = input.files?.[0]
    read()
  })
  kind.addEventListener("change", read)
  const fields = [field(texts.importInto, kind), field(texts.importFile, input, file?.name)]
  const controls = h("fieldset", {}, ...fields)
  const help = () => [h("p", {}, texts.importStopHelp)]
  const mayClose = () => !controls.disabled || ask(texts.importStop, help(), texts.leave)
  const dialog = openDialog(texts.import, [controls, place], { isWide: true, mayClose })
  dialog.addEventListener("close", () => {
    stop.abort()
    app.refresh()
  })
  read()
}

/** What becomes of the columns of a file, its check and its import. */
class Plan {
  /**
   * @param {App} app
   * @param {Type} type
   * @param {CsvRow[]} table
   * @param {AbortSignal} signal
   * @param {(isBusy: boolean) => void} onBusy
   */
  constructor(app, type, table, signal, onBusy) {
    this.onBusy = onBusy
    this.app = app
    this.type = type
    this.table = table
    this.signal = signal
    this.possible = columnsOf(app, type)
    this.selects = table[0].cells.map((header, index) => this.#select(header, index))
    this.result = h("div", { role: "status" })
    this.key = h("select", { id: "import-key", change: () => this.#show() })
    this.#showKeys()
    const rows = this.selects.map((select, index) => {
      const label = h("label", { for: select.id }, h("bdi", {}, table[0].cells[index]))
      return [label, h("bdi", {}, unescaped(table[1].cells[index] ?? "").slice(0, MAX_SAMPLE)), select]
    })
    const heads = [texts.importColumn, texts.importSample, texts.importField]
    const check = button(texts.importCheck, () => this.#check(), { class: "primary" })
    const key = field(texts.importKey, this.key)
    this.controls = h("fieldset", {}, grid(heads, rows), key, buttons(check))
    this.element = h("div", {}, this.controls, this.result)
  }

  /**
   * Return the choice of what a column becomes: by default, what is called like it.
   * @param {string} header
   * @param {number} index
   */
  #select(header, index) {
    const plain = (/** @type {string} */ one) => one.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "")
    const options = this.possible.map((one) => {
      const selected = plain(one.name) === plain(header)
      return h("option", { value: one.name, selected }, labelOf(one.name))
    })
    const change = () => this.#showKeys()
    return h(
      "select",
      { id: `import-${index}`, change },
      h("option", { value: "" }, texts.importIgnore),
      ...options,
    )
  }

  /** The columns that are not left out. @returns {Column[]} */
  get #columns() {
    return this.selects.flatMap((select, index) => {
      const found = this.possible.find((one) => one.name === select.value)
      return found ? [{ ...found, index }] : []
    })
  }

  #showKeys() {
    const own = this.#columns.filter((one) => !one.link)
    const chosen = keyOf(own)
    const options = own.map((one) =>
      h("option", { value: one.name, selected: one === chosen }, labelOf(one.name)),
    )
    this.key.replaceChildren(
      ...options,
      h("option", { value: "", selected: !chosen }, texts.importNoKey),
    )
  }

  /** Check all rows, and offer to store those without errors. */
  async #check() {
    const columns = this.#columns
    const names = columns.map((one) => one.name)
    if (new Set(names).size < names.length)
      return this.#show(h("p", { class: "error" }, texts.importSameName))
    const key = columns.find((one) => one.name === this.key.value)
    const job = new Importer(this.app, this.type, columns, key, this.table)
    await this.#run(texts.importChecking, async (onProgress) => {
      await job.run(true, onProgress, this.signal)
      const count = job.rows.length
      const apply = button(texts.importApply(count), () => this.#apply(job), { class: "primary" })
      this.#show(
        h("p", {}, texts.importGood(count)),
        this.#errors(job.defects),
        count > 0 ? buttons(apply) : null,
      )
      apply.focus()
    })
  }

  /** @param {Importer} job */
  async #apply(job) {
    job.defects = []
    job.line = 0
    await this.#run(texts.importApplying, async (onProgress) => {
      try {
        await job.run(false, onProgress, this.signal)
        this.#show(
          h("p", { class: "done" }, texts.importDone(job.rows.length)),
          this.#errors(job.defects),
        )
      } catch (error) {
        const note = h("p", {}, texts.importStopped(job.line, job.keys.get("")?.length === 0))
        this.#show(failed(error), note)
      }
    })
  }

  /**
   * Show the progress of an action.
   * @param {OnProgress | ((done: number, all: number) => string)} text
   * @param {(onProgress: OnProgress) => Promise<void>} action
   */
  async #run(text, action) {
    const bar = h("progress", { max: 1, "aria-label": texts.progress })
    const words = h("p")
    this.#show(bar, words)
    this.onBusy((this.controls.disabled = true))
    try {
      await action((done, all) => {
        bar.max = all
        bar.value = done
        words.textContent = String(text(done, all))
      })
    } catch (error) {
      if (!isAborted(error)) this.#show(failed(error))
    } finally {
      this.onBusy((this.controls.disabled = false))
    }
  }

  /** @param {...Child} content */
  #show(...content) {
    this.result.replaceChildren(h("div", {}, ...content))
  }

  /** @param {Defect[]} defects */
  #errors(defects) {
    if (defects.length === 0) return null
    const lines = new Set(defects.map((one) => one.line)).size
    const rows = defects
      .slice(0, MAX_SHOWN)
      .map(({ line, column, text }) => [line, column && labelOf(column), text])
    const more = defects.length - MAX_SHOWN
    return h(
      "div",
      {},
      h("p", { class: "error" }, texts.importBad(lines)),
      grid([texts.line, texts.column, texts.error], rows),
      more > 0 ? h("p", {}, texts.importMore(more)) : null,
    )
  }
}
