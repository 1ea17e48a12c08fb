-- Part of open, beat and grace: the term, one life of the engine as primary.
local function read_term()
    local info = call('INFO', 'server') .. call('INFO', 'replication')
    return string.match(info, '\nrun_id:(%x+)') .. ':' .. string.match(info, '\nmaster_replid:(%x+)')
end
