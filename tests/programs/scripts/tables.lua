-- Tables of 200 000 small tables are built and left to the collector; realloc grows the arrays.
local sum = 0
for round = 1, 8 do
  local rows = {}
  for i = 1, 200000 do rows[i] = { i, tostring(i * round) } end
  for i = 1, #rows, 1000 do sum = (sum * 31 + tonumber(rows[i][2])) % 1000000007 end
end
collectgarbage()
local parts = {}
for i = 1, 100000 do parts[#parts + 1] = string.rep('x', i % 50) end
print(sum, #table.concat(parts, ' '))
