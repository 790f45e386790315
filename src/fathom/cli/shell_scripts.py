"""The completion scripts. They only ask `fathom __complete`, and show what it says: see `complete`.

Those that cyclopts generates were tried: three thousand lines for bash, which take an argument that equals
the name of a command for that command, and know no unfinished words such as `pod/`.
"""

from __future__ import annotations

# COMP_WORDS is not used: bash divides it at '=' and ':' too. What bash regards as the last word then begins
# after those, so they are cut from each candidate.
BASH = r"""# bash completion for fathom
_fathom() {
    local line typed cut value directive=4
    local -a words
    line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    typed=${words[${#words[@]}-1]}
    cut=
    [[ $typed == *[=:]* ]] && cut=${typed%"${typed##*[=:]}"}
    COMPREPLY=()
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        case $value in
            :[0-9]*) directive=${value#:} ;;
            "$typed"*) COMPREPLY+=("${value#"$cut"}") ;;
        esac
    done < <("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
    (( directive & 2 )) && compopt -o nospace
    if (( ! (directive & 4) )); then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "${typed#"$cut"}")
    fi
}
complete -F _fathom fathom
"""

ZSH = r"""#compdef fathom
# zsh completion for fathom
_fathom() {
    local line value about directive=4
    local -a lines values shown options
    lines=("${(@f)$(${~words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in $lines; do
        value=${line%%$'\t'*}
        about=${line#*$'\t'}
        if [[ $value == :[0-9]* ]]; then
            directive=${value#:}
        elif [[ -n $value ]]; then
            values+=("$value")
            [[ $about == "$line" ]] && shown+=("$value") || shown+=("$value  -- $about")
        fi
    done
    (( directive & 2 )) && options=(-S '')
    if (( ! (directive & 4) )); then
        [[ $PREFIX == --*=* ]] && compset -P '*='
        _files
        return
    fi
    (( $#values )) && compadd $options -l -d shown -a values
}
if [[ $funcstack[1] == _fathom ]]; then
    _fathom "$@"
else
    compdef _fathom fathom
fi
"""

FISH = r"""# fish completion for fathom
function __fathom_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] 2>/dev/null)
    set -l directive 4
    for line in $lines
        if string match -qr '^:[0-9]+$' -- $line
            set directive (string sub -s 2 -- $line)
        else
            echo $line
        end
    end
    if test $directive -eq 0
        __fish_complete_path (commandline -ct)
    end
end
complete -c fathom -f -a '(__fathom_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
