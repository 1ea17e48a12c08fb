# Prints a script as it is loaded: each line "--:include FILE" is replaced by that file of the same folder.
#
#   awk -f assemble.awk call.lua

function copy(file,    folder, line, status) {
    folder = file
    sub(/[^\/]*$/, "", folder)
    while ((status = (getline line < file)) > 0) {
        if (line ~ /^--:include /)
            copy(folder substr(line, 12))
        else
            print line
    }
    if (status < 0) {
        print "assemble.awk: " file ": cannot be read" > "/dev/stderr"
        exit 1
    }
    close(file)
}

BEGIN {
    copy(ARGV[1])
    exit 0
}
