#!/bin/sh
# The operator of `greeter.py` as a shell script with kubectl. With --generated-names it has the bug of
# `greeter_twice.py`: what is created again is another object.

card() { # name uid number message
    if [ "$generated" ]; then named="\"generateName\": \"$1-\""; else named="\"name\": \"$1-$3\""; fi
    owner="{\"apiVersion\": \"example.dev/v1\", \"kind\": \"Greeting\", \"name\": \"$1\", \"uid\": \"$2\"}"
    echo "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"data\": {\"message\": \"$4\"},
           \"metadata\": {$named, \"ownerReferences\": [$owner]}}"
}

make_cards() { # name uid generation copies message
    number=0
    while [ "$number" -lt "$4" ]; do
        if [ "$generated" ]; then verb=create; else verb=apply; fi
        card "$1" "$2" "$number" "$5" | kubectl "$verb" --request-timeout=10s -f - || return 1
        number=$((number + 1))
    done
    kubectl patch greeting "$1" --request-timeout=10s --subresource=status --type=merge \
        -p "{\"status\": {\"cards\": $4, \"observedGeneration\": $3}}"
}

fields='{.metadata.name}|{.metadata.uid}|{.metadata.generation}|{.status.observedGeneration}|{.spec.copies}|{.spec.message}'
generated=
[ "$1" = --generated-names ] && generated=yes
while :; do
    kubectl get greetings --request-timeout=10s -o "jsonpath={range .items[*]}$fields{\"\n\"}{end}" |
        while IFS='|' read -r name uid generation observed copies message; do
            [ "$generation" = "$observed" ] || make_cards "$name" "$uid" "$generation" "$copies" "$message" </dev/null
        done
    sleep 2
done
