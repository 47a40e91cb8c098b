import { createHash } from 'node:crypto';

/**
 * What a node asks of Redis, in Lua. There is one key, a hash from the incarnation of a node to the end of its lease and
 * its record (`1700000000000:…`), so that one script sees all nodes, in Redis Cluster too. The clock is the engine's.
 */
export interface Script {
  readonly source: string;
  readonly digest: string;
}

/** The table itself expires an hour after the last renewal, in milliseconds. */
const TABLE_TTL_MS = 3_600_000;

const LEASES = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function whole(number) return string.format('%.0f', number) end
local function left(lease)
  local at = string.find(lease, ':', 1, true)
  local ends = at and tonumber(string.sub(lease, 1, at - 1))
  if not ends or ends <= now then return nil end
  return whole(ends - now), string.sub(lease, at + 1)
end
`;

/** KEYS: the table. ARGV: incarnation, record, lease in ms. Returns the time and three values for each node. */
export const RENEW = script(`${LEASES}
redis.call('HSET', KEYS[1], ARGV[1], whole(now + ARGV[3]) .. ':' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ${TABLE_TTL_MS})
local found = { whole(now) }
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ms, record = left(all[i + 1])
  if ms then
    found[#found + 1] = all[i]
    found[#found + 1] = ms
    found[#found + 1] = record
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return found
`);

/** KEYS: the table. ARGV: incarnation. Returns the rest of the lease in ms and the record, or nothing. */
export const FIND = script(`${LEASES}
local lease = redis.call('HGET', KEYS[1], ARGV[1])
if not lease then return {} end
local ms, record = left(lease)
if not ms then return {} end
return { ms, record }
`);

/** KEYS: the table. ARGV: incarnation. */
export const WITHDRAW = script(`return redis.call('HDEL', KEYS[1], ARGV[1])`);

function script(source: string): Script {
  return { source, digest: createHash('sha1').update(source).digest('hex') };
}
