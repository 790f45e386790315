"""`plain_greeter.py` with a bug that many operators have: generateName. What is created again is another
object."""

import plain_greeter


def card_of(greeting, number):
    return {
        "metadata": {
            "generateName": f"{greeting['metadata']['name']}-",
            "ownerReferences": [plain_greeter.owner(greeting)],
        },
        "data": {"message": greeting["spec"]["message"]},
    }


if __name__ == "__main__":
    plain_greeter.card_of = card_of
    plain_greeter.main()
