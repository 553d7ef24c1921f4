/** Import */
/** @param {any} app @param {any} type */
export function openImport(app, type) { void app; void type }
