/** CSV files as spreadsheets write them -> rows. */

import { texts } from "./texts.js"

/** @typedef {{ line: number, cells: string[] }} CsvRow */

const DELIMITERS = [",", ";", "\t", "|"]

// As exports write it: an apostrophe before what a spreadsheet would take for a formula.
const ESCAPED = /(^|[;\n\r])("*)'(?='*[=+\-@\t\n\r\0＝＋－＠])/g

/**
 * Return the text of a file. Throws a sentence for people if it is not UTF-8.
 * @param {Blob} file
 */
export async function decode(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer())
  } catch {
    throw new Error(texts.importNotUtf8)
  }
}

/**
 * Return the rows of a CSV file, the header first, without those that are empty. Throws a sentence
 * for people if a quote is not closed.
 * @param {string} text
 * @returns {CsvRow[]}
 */
export function parseCsv(text) {
  const mark = /^sep=(.)\r?\n/i.exec(text)
  const content = mark ? text.slice(mark[0].length) : text
  const first = content.split(/\r?\n/, 1)[0]
  const counts = DELIMITERS.map((one) => first.split(one).length)
  const delimiter = mark?.[1] ?? DELIMITERS[counts.indexOf(Math.max(...counts))]
  const rows = split(content, delimiter, mark ? 2 : 1)
  return rows.filter((row) => row.cells.some((one) => one.trim() !== ""))
}

/**
 * @param {string} text
 * @param {string} delimiter
 * @param {number} firstLine
 */
function split(text, delimiter, firstLine) {
  /** @type {CsvRow[]} */
  const rows = []
  let row = { line: firstLine, cells: [""] }
  let line = firstLine
  let isQuoted = false
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    const last = row.cells.length - 1
    if (character === "\n") line += 1
    if (character === '"' && isQuoted && text[index + 1] === '"') {
      row.cells[last] += '"'
      index += 1
    } else if (character === '"' && (isQuoted || row.cells[last] === "")) {
      isQuoted = !isQuoted
    } else if (isQuoted) {
      row.cells[last] += character
    } else if (character === delimiter) {
      row.cells.push("")
    } else if (character === "\n") {
      rows.push(row)
      row = { line, cells: [""] }
    } else if (character !== "\r" || text[index + 1] !== "\n") {
      row.cells[last] += character
    }
  }
  if (isQuoted) throw new Error(texts.importUnclosed(row.line))
  return [...rows, row]
}

/**
 * Return the text that a cell stands for: without blanks around it, and without the apostrophe
 * that keeps spreadsheets from executing or stripping it.
 * @param {string} cell
 */
export function unescaped(cell) {
  const isVerbatim = /^'('*\s|'*$|.*\s$)/s.test(cell)
  return (isVerbatim ? cell.slice(1) : cell.trim()).replace(ESCAPED, "$1$2")
}
