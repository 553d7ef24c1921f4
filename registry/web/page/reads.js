/** Reads that neither overtake each other nor pile up. */

const AGAIN_MS = 2_000

/**
 * Return a function that reads something: one read runs, and one is pending. Who calls it gets the result of a read
 * that began after the call.
 * @template T
 * @param {() => Promise<T>} read @returns {() => Promise<T>}
 */
export function inTurn(read) {
  /** @type {Promise<T> | null} */
  let running = null
  /** @type {Promise<T> | null} */
  let pending = null
  const start = () => (running = read().finally(() => (running = null)))
  return () => {
    if (!running) return start()
    const next = () => {
      pending = null
      return start()
    }
    return (pending ??= running.then(next, next))
  }
}

/**
 * Return a function that runs an action after some time, once for all calls until then; again if its request is lost.
 * Other errors are ignored, as the next call does it again.
 * @param {() => Promise<unknown>} action @param {number} milliseconds
 */
export function later(action, milliseconds) {
  let isWaiting = false
  const run = inTurn(action)
  const begin = (wait = milliseconds) => {
    if (isWaiting) return
    isWaiting = true
    setTimeout(() => {
      isWaiting = false
      run().catch(({ status }) => status === 0 && begin(AGAIN_MS))
    }, wait)
  }
  return () => begin()
}
