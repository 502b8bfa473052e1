-- The steps that change a place, each behind a look whether the caller still may.
--   ARGV: step, meta, token, who, lease in ms, then what the step takes
-- The answer's first element says what came of it: ok; used, and by whom; moved.
local step, meta, token, who, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local state, owner = meta .. 'state', meta .. 'owner'

local has = redis.call('GET', owner)
if has and string.sub(has, 1, #token) ~= token then
  return {'used', string.sub(has, #token + 2)}
end

-- many calls a command on list[from] to list[to], as often as it takes: unpack is limited.
local function many(command, key, list, from, to)
  for i = from, to, 4000 do
    local last = math.min(i + 3999, to)
    if key then redis.call(command, key, unpack(list, i, last)) else redis.call(command, unpack(list, i, last)) end
  end
end

-- carry carries out a part of a commit, which begins at list[i]: rows as texts (how many arguments; key, row, …), rows as hashes
-- (how many rows; key, how many arguments, column, value, …), keys that go (how many; …), and entries (how many hashes; key, how
-- many arguments to set, how many keys to take away, key, entry, …, key, …).
local function carry(list, i)
  local n = tonumber(list[i])
  many('MSET', nil, list, i + 1, i + n)
  i = i + n + 1
  local rows = tonumber(list[i])
  i = i + 1
  for _ = 1, rows do
    n = tonumber(list[i + 1])
    redis.call('UNLINK', list[i])
    many('HSET', list[i], list, i + 2, i + n + 1)
    i = i + n + 2
  end
  n = tonumber(list[i])
  many('UNLINK', nil, list, i + 1, i + n)
  i = i + n + 1
  local hashes = tonumber(list[i])
  i = i + 1
  for _ = 1, hashes do
    local key, sets, gone = list[i], tonumber(list[i + 1]), tonumber(list[i + 2])
    i = i + 3
    many('HSET', key, list, i, i + sets - 1)
    many('HDEL', key, list, i + sets, i + sets + gone - 1)
    i = i + sets + gone
  end
end

local function renew() redis.call('SET', owner, token .. ' ' .. who, 'PX', lease) end

if step == 'take' then
  renew()
  return {'ok', unpack(redis.call('HMGET', state, 'format', 'gen', 'seq', 'nonce', 'state', 'redo', 'parts'))}
elseif step == 'renew' then
  if has then redis.call('PEXPIRE', owner, lease) end
  return {'ok'}
elseif step == 'release' then
  redis.call('DEL', owner)
  return {'ok'}
elseif step == 'forget' then -- the place holds nothing from now on
  renew()
  redis.call('DEL', state)
  return {'ok'}
elseif step == 'sweep' then -- keys; while it holds nothing
  if redis.call('EXISTS', state) == 1 then return {'moved'} end
  renew()
  many('UNLINK', nil, ARGV, 6, #ARGV)
  return {'ok'}
elseif step == 'begin' then -- format, gen, nonce, state
  if redis.call('EXISTS', state) == 1 then return {'moved'} end
  renew()
  redis.call('HSET', state, 'format', ARGV[6], 'gen', ARGV[7], 'seq', '0', 'nonce', ARGV[8], 'state', ARGV[9])
  return {'ok'}
end

-- The others follow a commit: gen, seq, nonce.
local at = redis.call('HMGET', state, 'gen', 'seq', 'nonce', 'redo')
if at[1] ~= ARGV[6] or at[2] ~= ARGV[7] or at[3] ~= ARGV[8] then return {'moved'} end
renew()

if step == 'write' then -- key of a list, its elements
  many('RPUSH', ARGV[9], ARGV, 10, #ARGV)
elseif step == 'decide' then -- nonce, number of parts
  redis.call('HSET', state, 'redo', ARGV[9], 'parts', ARGV[10])
elseif step == 'clean' then -- keys
  many('UNLINK', nil, ARGV, 9, #ARGV)
elseif not at[4] then
  return {'moved'}
elseif step == 'carry' then -- key of the list that holds a part
  carry(redis.call('LRANGE', ARGV[9], 0, -1), 1)
elseif step == 'finish' then -- seq, nonce, state, keys of lists
  redis.call('HSET', state, 'seq', ARGV[9], 'nonce', ARGV[10], 'state', ARGV[11])
  redis.call('HDEL', state, 'redo', 'parts')
  many('UNLINK', nil, ARGV, 12, #ARGV)
end
return {'ok'}
