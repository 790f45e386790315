"""Asks the API server to explain objects. Small and without an event loop: a question is one request.

POST /apis/fathom.dev/v1alpha1/namespaces/NS/explanations   spec: {subject, at, …} -> status: the answer
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from fathom.cli.api_server import Answer, NoAnswerNow, ServerConnection
from fathom.cli.places import observer_of
from fathom.cli.problem import ANSWER_IS_NO, Problem

SYSTEM_NAMESPACE = "fathom-system"  # Of answers about objects that have no namespace.
OWN_KINDS = "/apis/fathom.dev/v1alpha1"
ASK_KINDS = "/apis/ask.fathom.dev/v1alpha1"  # Of a Kubernetes that fathom is attached to, with --ask-api.
# Kinds that a bare name may mean, and where their objects are; {} is the namespace's part of the path.
NAMED_KINDS = {
    "pod": "/api/v1{}/pods",
    "deployment": "/apis/apps/v1{}/deployments",
    "replicaset": "/apis/apps/v1{}/replicasets",
    "job": "/apis/batch/v1{}/jobs",
    "service": "/api/v1{}/services",
    "horizontalpodautoscaler": "/apis/autoscaling/v2{}/horizontalpodautoscalers",
    "poddisruptionbudget": "/apis/policy/v1{}/poddisruptionbudgets",
    "scheduleroverride": OWN_KINDS + "{}/scheduleroverrides",
    "node": "/api/v1/nodes",
    "policyrollout": OWN_KINDS + "/policyrollouts",
}
WITHOUT_NAMESPACE = frozenset({"node", "nodes", "no", "policyrollout", "policyrollouts", "prl", "namespace"})


# What the answer of each view has at least.
FIELDS_OF_VIEWS = {
    "": frozenset({"summary"}),
    "status": frozenset({"pendingReplicas", "lastReason"}),
    "stuck": frozenset({"items"}),
}


# What API servers say of a kind that they do not know.
NO_SUCH_PATH = "the server could not find the requested resource"
ANSWERS_NO_QUESTIONS = (
    "this API server does not answer questions: it is not fathom, or older than 0.1. Attach an observer to it"
    " (fathom attach --observe-only --kubeconfig FILE) and ask that: it writes a kubeconfig of its own. With"
    " --ask-api, this API server answers too"
)


class NoSuchObject(Problem):
    """There is no such object as the question's, and nothing is on record about one."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question about one object, as the user wrote it."""

    kind: str
    name: str
    namespace: str
    at: str = ""
    what_if: tuple[str, ...] = ()
    view: str = ""  # 'status', 'stuck'; '' is why.


class ApiServer(ServerConnection):
    """Answers questions about objects."""

    def explain(self, question: Question) -> Answer:
        """Raises Problem."""
        namespace = SYSTEM_NAMESPACE if question.kind.lower() in WITHOUT_NAMESPACE else question.namespace
        spec: Answer = {"subject": {"kind": question.kind, "name": question.name}}
        if question.at:
            spec["at"] = question.at
        if question.what_if:
            spec["whatIf"] = list(question.what_if)
        if question.view:
            spec["view"] = question.view
        explanation = self.ask("Explanation", "explanations", spec, namespace)
        if not FIELDS_OF_VIEWS[question.view] <= explanation.keys():
            raise Problem(ANSWERS_NO_QUESTIONS)  # It has such a kind, but does not know the view.
        return explanation

    def ask(self, kind: str, plural: str, spec: Answer, namespace: str) -> Answer:
        """A Kubernetes that is not fathom's does not know the question: then an observer of it that runs here
        is asked, else one that it leads to itself. Raises Problem."""
        try:
            return self._asked(OWN_KINDS, kind, plural, spec, namespace)
        except Problem as problem:
            if str(problem) != ANSWERS_NO_QUESTIONS:
                raise
        observer = observer_of(self.url)
        if observer is not None:
            return ApiServer(observer).ask(kind, plural, spec, namespace)
        return self._asked(ASK_KINDS, kind, plural, spec, namespace)

    def _asked(self, group: str, kind: str, plural: str, spec: Answer, namespace: str) -> Answer:
        """Raises Problem."""
        body = {"apiVersion": group.removeprefix("/apis/"), "kind": kind, "spec": spec}
        status, answer = self.request("POST", f"{group}{_in_namespace(namespace)}/{plural}", body)
        if status not in {200, 201}:
            unknown = status == 403 and lacks_kind(self, group, plural)
            raise Problem(ANSWERS_NO_QUESTIONS) if unknown else _problem(status, answer)
        answered: Answer = answer.get("status") or {}
        return answered

    def kinds_of(self, name: str, namespace: str) -> list[str]:
        """The kinds of which an object has this name."""
        kinds = []
        for kind, path in NAMED_KINDS.items():
            status, answer = self.request(
                "GET", f"{path.format(_in_namespace(namespace))}/{quote(name, safe='')}"
            )
            if status == 401:
                raise Problem(str(answer.get("message") or "the API server does not know the user"))
            if status == 200:
                kinds.append(kind)
        return kinds


def lacks_kind(server: ServerConnection, group: str, plural: str) -> bool:
    """Kubernetes refuses a user without rights to a kind before it looks whether there is such a kind."""
    status, listed = server.request("GET", group)
    served = {resource.get("name") for resource in listed.get("resources") or ()}
    return status == 404 or (status == 200 and plural not in served)


def answers_no_questions(status: int, reason: str, message: str) -> bool:
    """Whether the server does not know the kind of the question."""
    return status in {405, 501} or (status == 404 and (not reason or message == NO_SUCH_PATH))


def _problem(status: int, answer: Answer) -> Problem:
    message = str(answer.get("message") or f"the API server answered with HTTP {status}")
    if answers_no_questions(status, str(answer.get("reason") or ""), message):
        return Problem(ANSWERS_NO_QUESTIONS)
    if status == 429 or status >= 500:
        return NoAnswerNow(message)
    if status == 404 and (answer.get("details") or {}).get("name"):
        return NoSuchObject(message, exit_code=ANSWER_IS_NO)
    return Problem(message)


def _in_namespace(namespace: str) -> str:
    return f"/namespaces/{quote(namespace, safe='')}"
