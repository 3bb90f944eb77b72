-- Builds, walks and drops a store of small documents, over and over: what a scripting language does all day.
-- Every table and every string is a malloc of its own.
local rounds, documents = tonumber(arg[1]) or 3, tonumber(arg[2]) or 60000
local checksum = 0
for round = 1, rounds do
  local store = {}
  for i = 1, documents do
    store[i] = { id = i, name = "document " .. i * round, tags = { i % 7, i % 11 } }
  end
  for i = 1, documents, 3 do store[i] = nil end
  for i = 1, documents, 3 do
    store[i] = { id = -i, name = "replacement " .. i, tags = { i % 13 } }
  end
  for i = 1, documents do
    checksum = (checksum * 31 + store[i].id + #store[i].name + store[i].tags[1]) % 1000000007
  end
end
print(checksum)
