-- Lua's own, before the server's takes its name.
local guarded = pcall

