#!/usr/bin/env node
// A client of a syncd sidecar for Node 18 or newer, without packages.
//
//   syncd.mjs ADDR read TABLE KEY [MIN_VERSION]   one row; exit status 1 where there is none
//   syncd.mjs ADDR many TABLE KEY...              the rows under these keys, of one commit
//   syncd.mjs ADDR watch TABLE COUNT [SINCE]      the first COUNT changes behind the version SINCE; else the rows, then their changes
//
// KEY is the key's value; of a key of several columns its values in key order, joined by commas. A token, where the sidecar wants one,
// is taken from SYNCD_TOKEN. JavaScript's numbers are doubles: where bigint or numeric columns hold more digits than those keep, read the
// answer's text() with a parser that keeps them.
import { pathToFileURL } from 'node:url'

/** An answer other than the one asked for. Its message says what to do. */
export class SyncdError extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

/** keyPath gives a key, its values in key order, as a path carries it. */
export function keyPath(values) {
  return values.map((v) => {
    const text = String(v)
    if (text === '.' || text === '..') return text.replaceAll('.', '%2E')
    if (text.length !== 1 && /^"*$/.test(text)) return '%22'.repeat(text.length + 2)
    return encodeURIComponent(text)
  }).join(',')
}

export class Sidecar {
  constructor(addr, token) {
    this.addr = addr.replace(/\/$/, '')
    this.headers = token ? { Authorization: `Bearer ${token}` } : {}
  }

  async open(path, params = {}, options = {}) {
    const query = String(new URLSearchParams(params))
    const answer = await fetch(`${this.addr}${path}${query && `?${query}`}`, { ...options, headers: { ...this.headers, ...options.headers } })
    if (!answer.ok) {
      const text = await answer.text()
      let error
      try { error = JSON.parse(text).error } catch { /* something in between has answered */ }
      throw new SyncdError(answer.status, error ?? `${answer.url}: ${answer.status} ${answer.statusText}`)
    }
    return answer
  }

  /** The row under a key, null where there is none. {min_version: '0/16B3748'} waits for a write. */
  async get(table, key, params) {
    try {
      return await (await this.open(`${tablePath(table)}/rows/${keyPath(key)}`, params)).json()
    } catch (e) {
      if (e instanceof SyncdError && e.status === 404 && e.message.startsWith('no row')) return null
      throw e
    }
  }

  /** Several tables and keys from one commit: [{table: 'public.users', keys: [[1], [2]]}, …]. */
  async read(reads, params) {
    return (await this.open('/v1/read', params, { method: 'POST', body: JSON.stringify({ reads }) })).json()
  }

  /** Yields {event, data} as they come, over as many connections as it takes. A reset voids all that came before. */
  async *watch(table, since, filters = {}) {
    let last
    let began = since === undefined
    for (;;) {
      const stop = new AbortController()
      try {
        const answer = await this.open(`${tablePath(table)}/watch`, { ...filters, ...(began ? { list: 'true' } : { since }) },
          { signal: stop.signal, headers: last ? { 'Last-Event-ID': last } : {} })
        for await (const { event, data, id } of events(answer.body)) {
          began = true
          last = event === 'reset' ? undefined : id ?? last
          yield { event, data }
        }
      } catch (e) {
        if (e instanceof SyncdError && e.status === 410) { // too old: begin anew with the rows
          began = true
          last = undefined
          yield { event: 'reset', data: { reason: e.message } }
          continue
        }
        if (e instanceof SyncdError && ![502, 503, 504].includes(e.status)) throw e
      } finally {
        stop.abort()
      }
      await new Promise((done) => setTimeout(done, 1000))
    }
  }
}

const tablePath = (table) => `/v1/tables/${encodeURIComponent(table)}`

/** events takes server-sent events apart. */
async function* events(body) {
  const text = new TextDecoder()
  let rest = ''
  for await (const chunk of body) {
    rest += text.decode(chunk, { stream: true })
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      const out = { event: undefined, data: [], id: undefined }
      for (const line of rest.slice(0, end).split('\n')) {
        const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line)
        if (name === 'data') out.data.push(value)
        else if (name === 'event' || name === 'id') out[name] = value
      }
      if (out.data.length) yield { ...out, data: JSON.parse(out.data.join('\n')) }
    }
  }
}

async function main([addr, command, table, first, ...more]) {
  if (first === undefined || !['read', 'many', 'watch'].includes(command) || command === 'watch' && !/^[1-9]\d*$/.test(first)) {
    console.error('usage: syncd.mjs ADDR read TABLE KEY [MIN_VERSION] | many TABLE KEY... | watch TABLE COUNT [SINCE]')
    return 2
  }
  const sidecar = new Sidecar(addr, process.env.SYNCD_TOKEN)
  if (command === 'read') {
    // A service writes, takes SELECT pg_current_wal_insert_lsn(), and reads its own write with that as min_version.
    const row = await sidecar.get(table, first.split(','), more.length ? { min_version: more[0] } : {})
    if (row === null) return 1
    console.log(JSON.stringify(row))
  } else if (command === 'many') {
    const { results: [found] } = await sidecar.read([{ table, keys: [first, ...more].map((k) => k.split(',')) }])
    found.items.forEach((row) => console.log(JSON.stringify(row)))
    found.missing.forEach((key) => console.log('missing', keyPath(key)))
  } else {
    let left = Number(first)
    for await (const { event, data } of sidecar.watch(table, more[0])) {
      if (event === 'reset') console.log('reset', data.reason)
      if (event !== 'upsert' && event !== 'delete') continue
      console.log(...[event, keyPath(data.key)].concat(event === 'upsert' ? [JSON.stringify(data.row)] : []))
      if (--left === 0) break
    }
  }
  return 0
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    process.exitCode = await main(process.argv.slice(2))
  } catch (e) {
    const away = e instanceof SyncdError ? '' : ` (${e.cause?.message ?? e.name}): does a sidecar listen at ${process.argv[2]}?`
    console.error(`syncd.mjs: ${e.message}${away}`)
    process.exitCode = 1
  }
}
