/** All texts of the page, in English; those of types and attributes follow from their names. */

/** @import { ErrorObject } from "./api.js" */

const numbers = new Intl.NumberFormat()

/** @param {number} count @param {string} one @param {string} [many] */
const counted = (count, one, many = `${one}s`) => `${numbers.format(count)} ${count === 1 ? one : many}`

/** @type {Record<string, string>} */
const labels = { created: "New", updated: "Changed", unchanged: "Unchanged" }

/** @param {string} label */
const withArticle = (label) => `${/^[aeiou]/i.test(label) ? "an" : "a"} ${label.toLowerCase()}`

export const texts = {
  // Everywhere
  number: (/** @type {number} */ number) => numbers.format(number),
  id: "ID",
  none: "—",
  yes: "Yes",
  no: "No",
  cancel: "Cancel",
  close: "Close",
  tryAgain: "Try again",
  periodOf: (/** @type {string} */ link, /** @type {string} */ source) => `${link} of ${withArticle(source)}`,
  periodsOf: (/** @type {string} */ link, /** @type {string} */ source) => `${link}s of ${source}s`,
  numbered: (/** @type {string} */ label, /** @type {string} */ id) => `${label} ${id}`,
  wait: (/** @type {number} */ seconds) => `The registry is busy. Trying again in ${counted(seconds, "second")}.`,
  notConnected: "Not connected: this page may be out of date.",
  notFound: "There is nothing here",
  notFoundHelp: "It may have been deleted, or the link is incomplete.",
  failed: "That did not work",

  // Find
  find: "Find",
  findHint: (/** @type {string} */ names) => `Find ${names}`,
  found: (/** @type {number} */ count) => counted(count, "result"),
  foundNothing: "Nothing found",
  showAll: (/** @type {string} */ counted) => `All ${counted}`,
  foundNoExact: "No exact match. Press Enter again to open the first result.",
  choose: "Type to find…",
  chooseNew: (/** @type {string} */ label, /** @type {string} */ text) => `New ${label.toLowerCase()} “${text}”…`,

  // Tables
  filter: "Filter",
  filterBy: (/** @type {string} */ label) => `Filter by ${label.toLowerCase()}`,
  column: "Column",
  condition: "Condition",
  value: "Value",
  valuesHint: "Separate several values by commas.",
  apply: "Apply",
  remove: (/** @type {string} */ what) => `Remove: ${what}`,
  pages: "Pages",
  previous: "Previous page",
  next: "Next page",
  empty: (/** @type {string} */ plural) => `No ${plural.toLowerCase()} yet`,
  emptyHelp: "Or drop a CSV file anywhere on this page.",
  searched: (/** @type {string} */ words) => `contains “${words}”`,
  sortBy: "Sort by",
  otherSort: "Other",
  noMatch: "Nothing matches these filters",
  newer: (/** @type {number} */ count) => `${counted(count, "new entry", "new entries")}: show the newest first`,
  deleted: "Deleted meanwhile",
  lasting: "now",

  // Several at once
  select: (/** @type {string} */ name) => `Select ${name}`,
  selectAll: "Select all",
  selectMatching: (/** @type {number} */ count) => `Select all ${numbers.format(count)} that match`,
  selectNone: "Select none",
  selection: "Selection",
  selected: (/** @type {number} */ count) => `${numbers.format(count)} selected`,
  assignAll: "Assign to…",
  assignLink: (/** @type {string} */ label) => `Assign ${label.toLowerCase()}…`,
  unassignLink: (/** @type {string} */ label) => `Unassign ${label.toLowerCase()}`,
  assignTitle: (/** @type {string} */ what) => `Assign ${what}`,
  unassignQuestion: (/** @type {string} */ what) => `Unassign ${what}?`,
  setAttribute: "Set attribute",
  setTitle: (/** @type {string} */ what) => `Change ${what}`,
  changedAll: (/** @type {string} */ what) => `Changed ${what}.`,
  failedTitle: (/** @type {string} */ what) => `${what} could not be changed`,
  pasted: "All pasted names are selected.",
  pastedUnknown: (/** @type {string} */ names) => `Not found: ${names}.`,
  undo: "Undo",
  undone: "Undone.",
  notUndone: (/** @type {string} */ what, /** @type {string} */ label, /** @type {number} */ count) =>
    `${what} ${count === 1 ? "has" : "have"} another ${label.toLowerCase()} meanwhile, which stays.`,
  counted: (/** @type {number} */ count, /** @type {string} */ label, /** @type {string} */ plural) =>
    counted(count, label.toLowerCase(), plural.toLowerCase()),
  isNull: "is empty",
  isNotNull: "is not empty",

  // Cards and forms
  add: (/** @type {string} */ label) => `New ${label.toLowerCase()}`,
  create: "Create",
  another: "Stay here to add another",
  created: (/** @type {string} */ name) => `Created ${name}.`,
  open: "Open",
  edit: "Edit",
  save: "Save",
  saved: "Saved.",
  delete: "Delete",
  deleteQuestion: (/** @type {string} */ name) => `Delete ${name}?`,
  deleteFinal: "This cannot be undone.",
  deleteLinked: (/** @type {string} */ counted, /** @type {number} */ count, /** @type {string} */ label) =>
    `${counted} no longer ${count === 1 ? "has" : "have"} ${withArticle(label)}.`,
  deletedName: (/** @type {string} */ name) => `Deleted ${name}.`,
  noLinks: "None",
  assign: "Assign",
  change: "Change",
  unassign: "Unassign",
  unassignName: (/** @type {string} */ name) => `Unassign ${name}`,
  chooseLink: (/** @type {string} */ label, /** @type {string} */ name) =>
    `Choose the ${label.toLowerCase()} of ${name}`,
  assignMember: (/** @type {string} */ label, /** @type {string} */ name) => `Assign ${withArticle(label)} to ${name}`,
  assigned: (/** @type {string} */ name, /** @type {string} */ target) => `${name} → ${target}`,
  unassigned: (/** @type {string} */ what, /** @type {number} */ count) =>
    `${what} ${count === 1 ? "is" : "are"} no longer assigned.`,
  actions: /** @type {Record<string, string>} */ ({ created: "Created", updated: "Changed", deleted: "Deleted" }),
  allChanges: "All changes",
  changedAt: "Changed",
  createdAt: "Created",
  by: (/** @type {string} */ name) => `by ${name}`,
  fieldUnchosen: "Choose one of the results, or leave this empty.",
  taken: "Open the one that has it",
  unsavedTitle: "Leave without saving?",
  unsavedHelp: "What you typed here is not saved yet.",
  leave: "Leave",
  stay: "Stay",
  attribute: "Attribute",
  changedMeanwhile: "Somebody else has changed this meanwhile. Save, and you can compare.",
  conflictTitle: "This was changed while you were editing",
  conflictHelp: "This was changed after you opened it. Choose what to keep.",
  conflictGone: "Somebody else has deleted this meanwhile. What you typed is still here to copy.",
  yours: "Yours",
  theirs: "Theirs",
  keepChosen: "Save what I chose",

  // CSV files
  download: "Download CSV",
  downloading: (/** @type {number} */ bytes) => `Downloading: ${numbers.format(Math.ceil(bytes / 1e6))} MB`,
  import: "Import CSV",
  importSample: "First rows",
  importColumn: "Column of the file",
  importField: "Becomes",
  importIgnore: "Leave out",
  importIgnored: (/** @type {string} */ names) => `Left out: ${names}`,
  importKey: "Identify existing rows by",
  importNoKey: "Don't match; create every row",
  importCheck: "Check",
  importTooWide: (/** @type {number} */ most) =>
    `This file has more than ${counted(most, "column")}. Remove those that are not needed.`,
  importChecked: (/** @type {number} */ count) => `Checked ${counted(count, "row")}.`,
  importGood: (/** @type {number} */ count) => `${counted(count, "row")} can be imported.`,
  importCount: (/** @type {string} */ effect, /** @type {string} */ what) => `${labels[effect] ?? effect}: ${what}.`,
  importBad: (/** @type {number} */ count, /** @type {number | null} */ line, /** @type {string} */ reason) =>
    `${count > 0 ? `${counted(count, "row")} cannot be imported. ` : ""}${line ? `Line ${line}: ` : ""}${reason}`,
  importMore: (/** @type {number} */ count) => `and ${counted(count, "more error")}`,
  importErrors: "Download errors",
  importApply: (/** @type {number} */ count) => `Import ${counted(count, "row")}`,
  importDone: (/** @type {number} */ count) => `Imported ${counted(count, "row")}.`,
  importStopped:
    "The import has stopped. Import the file again to continue: what is stored stays, nothing is stored twice.",
  importStop: "Stop the import?",
  importStopHelp: "Rows that are already stored remain.",
  progress: "Progress",
  line: "Line",
  error: "Error",

  // Access
  tokenTitle: "Access token needed",
  tokenHelp: "This registry needs an access token. Your administrator can create one.",
  tokenExpired: "The access token is no longer valid. Enter another one: nothing you typed is lost.",
  tokenRefused: "The registry does not know this token. It may have expired.",
  tokenForget: "Forget the token",
  access: (/** @type {string} */ name) => `Access: ${name}`,
  mayRead: "See",
  mayWrite: "Change",
  nothing: "nothing",

  /** What the registry says of an error, whose names are code. */
  detail: (/** @type {string} */ detail) =>
    detail.replace(/`([^`]*)`/g, (_, code) => {
      const isName = /^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$/.test(code)
      return isName ? code.replaceAll("_", " ").replaceAll(".", ": ") : `“${code}”`
    }),

  /** What happened, and what to do, in a sentence or two. */
  failure: (/** @type {number} */ status, /** @type {ErrorObject[]} */ errors, /** @type {number} */ retryAfter) => {
    const details = [...new Set(errors.map(({ detail }) => detail))].slice(0, 3).join(" ")
    const soon = retryAfter ? `in ${counted(retryAfter, "second")}` : "in a moment"
    /** @type {Record<number, string>} */
    const sentences = {
      0: "The registry cannot be reached. Check your connection, then try again: nothing is lost.",
      401: "Your access token is not valid. Enter another one to go on.",
      403: `Your access token does not allow this. ${details}`,
      404: "This does not exist any more.",
      409: details || "This does not fit what is stored.",
      412: "Somebody else has changed this meanwhile. What is shown is new: check it, and try again.",
      413: "This is more than the registry accepts at once. Send less.",
      422: `Please correct this: ${details}`,
      503: `The registry is busy or not available. Try again ${soon}: nothing is lost.`,
    }
    const other = status >= 500 ? "The registry has failed. Try again, or tell your administrator." : details
    return sentences[status] ?? (other || `The registry answered ${status}.`)
  },
}
