/** The shapes of values that several modules share: for the compiler and for readers, without any code. */

/** @typedef {{ type: string, id: string }} Identifier */
/** @typedef {{ data?: Identifier | Identifier[] | null, meta?: { count?: number } }} Linkage */
/** @typedef {Identifier & { attributes: Record<string, any>, relationships?: Record<string, Linkage> }} Resource */
/** @typedef {{ data: any, included?: Resource[], meta?: any, errors?: ErrorObject[] }} JsonDocument */
/**
 * @typedef {{
 *   status: string, code: string, title: string, detail: string, links?: { about?: string },
 *   source?: { pointer?: string, parameter?: string, line?: number, column?: string },
 * }} ErrorObject
 */
/** @typedef {Record<string, string>} Query */

/** @typedef {"text" | "email" | "choice" | "boolean" | "integer" | "decimal" | "date" | "time" | "object"} Kind */
/**
 * What the root tells of an attribute, and what follows. required: when a resource is created. parts: the attributes
 * that it is put together of. copiedFrom: the relationship whose resource it describes.
 * @typedef {{
 *   name: string, label: string, kind: Kind, description?: string, enum?: (string | null)[], default?: unknown,
 *   nullable?: boolean, required?: boolean, readOnly?: boolean, unique?: boolean, maxLength?: number,
 *   parts: string[], copiedFrom?: string,
 * }} Attribute
 */
/**
 * target: the name of the type that it leads to; the first, if there are several. inverse: the name of the
 * relationship of the target.
 * @typedef {{
 *   name: string, label: string, target: string, types: string[], inverse: string, many: boolean, writable: boolean,
 * }} Relationship
 */
/** @typedef {{ name: string, label: string, operators: string[], value: Attribute }} Filter */
/** @typedef {{ label: string, time_label: string, operand: "value" | "list" | "part" }} Operator */
/**
 * path: of its collection. label: of one resource. authorship: who created and changed a resource, and when. display:
 * the attribute that people know a resource by. sort: the names that sorting knows.
 * @typedef {{
 *   name: string, path: string, label: string, plural: string, writable: boolean, attributes: Attribute[],
 *   authorship: Attribute[], display?: Attribute, relationships: Relationship[], filters: Filter[], sort: string[],
 * }} Type
 */
/** @typedef {{ name: string, read: string[], write: string[] }} Access */

/** links: those since. @typedef {Identifier & { op: "add" | "update" | "remove", links: Identifier[] }} Change */

/**
 * sort: the name to sort by, if any. blank: the name of the filter for what has no value; "" if all have one, undefined
 * of what is counted. kind: a class. head: the heading, if it is more than the label. cell: what shows a resource of a
 * document with these included ones.
 * @typedef {{
 *   name: string, label: string, sort?: string, blank?: string, kind?: string, head?: HTMLElement,
 *   cell: (resource: Resource, included: Resource[]) => Child,
 * }} Column
 */

/**
 * What the page shows. load: reads it, and shows it. update: follows what others have changed.
 * @typedef {{
 *   element: HTMLElement, title: string, load(): Promise<void>, update(changes: Change[]): unknown,
 *   paste?: (text: string) => unknown,
 * }} View
 */

/** @typedef {Node | string | number | null | undefined | false} Child */

/** @typedef {HTMLInputElement | HTMLSelectElement} Control */

/** before: what it is linked to. @typedef {{ id: string, name: string, before: Identifier | null }} Item */
/** What others are linked to. @typedef {Identifier & { name: string }} Target */
/** Why each failed, by id. @typedef {Map<string, string>} Failures */

/** As it was read. @typedef {{ resource: Resource, included: Resource[], etag: string }} Version */
/**
 * A part of a card. affected: the ids of what shows something that has changed. losses: what the deletion of the
 * resource of the card means.
 * @typedef {{
 *   element: HTMLElement, load(): Promise<void>, affected?(changes: Change[]): string[], losses?(): string[],
 * }} Part
 */
