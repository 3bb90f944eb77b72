-- For each line of the input takes much (take), drops 85 in 100 at random (thin) or everything (clear), and says so.
local kept = {}
for line in io.lines() do
  if line == "take" then
    for i = 1, 150000 do kept[i] = { id = i, text = i .. string.rep("x", i * 7919 % 600) } end
  elseif line == "thin" then
    math.randomseed(1)
    local fewer = {}
    for _, each in ipairs(kept) do
      if math.random() >= 0.85 then fewer[#fewer + 1] = each end
    end
    kept = fewer
  else
    kept = {}
  end
  collectgarbage()
  collectgarbage()
  print(#kept)
  io.flush()
end
