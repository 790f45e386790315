"""What if a card's name did not follow from the intent? Here it follows from what was read, so that whoever
reads again gives another name. A patch for `--patch` and `--fathom-patch`."""

import greeting


def new_card(wanted, slot, text):
    namespace, name = greeting.key_of(wanted)
    name = f"{name}-{greeting.metadata(wanted)['resourceVersion']}-{slot}"
    return greeting.owned({"metadata": {"namespace": namespace, "name": name}, "data": text}, wanted)


greeting.new_card = new_card
