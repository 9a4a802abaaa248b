"""What providers and servers say, in the phase in which they say it, and what comes of it.

A refusal is `alike` where ten of them in a row, to different recipients, halt the server. ` / `
separates the lines of a reply.
"""

from __future__ import annotations

import pytest

from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.reply_table import judge
from outbox.domain.delivery.transaction import Phase, Verdict
from outbox.smtp.reply_reader import parse_reply

LARGE = """
ehlo | 421 4.7.0 Try again later, closing connection. (EHLO) | halt
dot | 421 4.7.28 Our system has detected an unusual rate of unsolicited mail | suspect
data | 421 4.3.0 Temporary System Problem.  Try again later (10). | suspect
auth | 454 4.7.0 Too many login attempts, please try again later. | halt
auth | 535 5.7.8 Username and Password not accepted. | halt, alert
auth | 534 5.7.9 Application-specific password required. | halt, alert
mail | 530 5.7.0 Authentication Required. | suspect, alert
rcpt data dot | 550 5.4.5 Daily user sending limit exceeded. | suspect
rcpt data dot | 550 5.7.1 Daily SMTP relay limit exceeded for customer. | suspect
rcpt data dot | 450 4.2.1 Peak SMTP relay limit exceeded for customer. | suspect
mail rcpt | 550 5.7.1 Invalid credentials for relay [192.0.2.1]. | fail, alike
rcpt | 450 4.2.1 The user you are trying to contact is receiving mail at a rate | suspect
rcpt | 550 5.2.1 The user you are trying to contact is receiving mail too quickly | fail
rcpt | 452 4.2.2 The email account that you tried to reach is over quota | retry
rcpt | 550 5.1.1 The email account that you tried to reach does not exist. | fail
rcpt | 451 4.3.0 Multiple destination domains per transaction is unsupported. | retry, alike
rcpt | 452 4.5.3 Your message has too many recipients. See Google's sending limits | retry, alike
dot | 552 5.7.0 This message was blocked because its content presents a security issue | fail, alike
dot | 550 5.7.26 This mail has been blocked because the sender is unauthenticated. | fail, alike
dot | 550 5.7.1 Our system has detected that this message is likely unsolicited mail | fail, alike
dot | 550 5.7.1 Our system has detected an unusual rate of unsolicited mail | suspect
mail | 555 5.5.2 Syntax error, goodbye. | fail, alike
auth | 535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled | halt, alert
auth | 550 5.7.30 Basic authentication is not supported for Client Submission. | halt, alert
mail | 530 5.7.57 Client not authenticated to send mail. | suspect, alert
dot | 432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded | suspect
dot | 432 4.3.2 Concurrent connections limit exceeded. Visit https://aka.ms/c_sending | suspect
dot | 554 5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException; Failed | suspect
dot | 554 5.2.0 STOREDRV.Submission.Exception:OutboundSpamException; Failed to process | fail, alike
dot | 550 5.1.90 Your message can't be sent because you've reached your daily limit for | suspect
dot | 550 5.1.8 Access denied, bad outbound sender AS(42003) | fail, alike
mail dot | 554 5.2.252 SendAsDenied; a@shop.example not allowed to send as b@x.example | fail, alike
mail dot | 550 5.7.60 SMTP; Client does not have permissions to send as this sender | fail, alike
dot | 550 5.7.233 Your message can't be sent because your tenant exceeded its daily limit | suspect
dot | 550 5.7.705 Access denied, tenant has exceeded threshold | suspect
rcpt dot | 550 5.7.508 Access denied, [192.0.2.1] has exceeded permitted limits in range | suspect
rcpt | 451 4.7.500 Server busy. Please try again later from [192.0.2.1]. | retry, alike
mail | 451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited | suspect
mail | 550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. (S3140) | fail, alike
mail | 452 4.3.1 Insufficient system resources | suspect
mail dot | 451 4.7.0 Temporary server error. Please try again later. PRX2 | retry, alike
mail | 421 4.4.2 Message submission rate for this client has exceeded the limit | suspect
rcpt | 550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain | fail, alike
rcpt data dot | 454 Throttling failure: Maximum sending rate exceeded. | suspect
rcpt data dot | 454 Throttling failure: Daily message quota exceeded. | suspect
mail | 421 Maximum message count per session reached. | suspect
dot | 554 Message rejected: Email address is not verified. | fail, alike
dot | 554 Message rejected: Sending paused for this account. | fail, alike
dot | 554 Transaction failed: Recipient count exceeds 50. | fail, alike
greeting | 421 Too many concurrent SMTP connections; please try again later. | halt
auth | 535 Authentication Credentials Invalid | halt, alert
"""
"""Gmail, Microsoft 365, Amazon SES."""

PROVIDERS = """
mail dot | 451 You've exceeded your messaging limits | suspect
auth | 451 Authentication failed: Maximum credits exceeded | halt
dot | 550 The from address does not match a verified Sender Identity. | fail, alike
rcpt | 452 Too many recipients received this hour | suspect
greeting | 450 too frequent connects from 192.0.2.1, please try again later. | halt
mail dot | 421 Domain shop.example is not allowed to send: recipient limit exceeded | suspect
rcpt | 550 5.7.1 Relaying denied | fail, alike
data dot | 550 5.7.0 Requested action not taken: too many emails per second | suspect
data dot | 550 5.7.0 Requested action not taken: The email limit is reached. | suspect
rcpt | 554 5.7.1 <a@shop.example>: Sender address rejected: Access denied | fail, alike
auth | 525 5.7.1 Unauthorized IP address | halt, alert
mail | 502 5.7.0 Your SMTP account is not yet activated. | fail, alike
dot | 450 You have reached your daily email quota. | suspect
mail dot | 550 Sender signature not found | fail, alike
mail dot | 550 5.4.6 Unusual sending activity detected. Please try after sometime. | suspect
mail dot | 550 5.4.6 mail rate exceeded limit | suspect
mail | 452 4.3.1 Temporary System Error | suspect
auth | 554 5.1.8 Email Outgoing Blocked | halt, alert
dot | 554 5.1.8 Email Outgoing Blocked | fail, alike
rcpt | 550 You reached a daily sending limit for your account. Limit expires in 5 hours | suspect
rcpt | 450 Requested mail action not taken: mailbox unavailable / Mail send limit exceeded | suspect
mail dot | 450 Mail send limit exceeded. | suspect
rcpt | 550 Requested action not taken: mailbox unavailable / Failure sending mail. | fail, alike
rcpt | 550 Requested action not taken: mailbox unavailable / Sender is not allowed. | fail, alike
rcpt | 550 Requested action not taken: mailbox unavailable / Please visit https://x.example | fail
rcpt | 550 Requested action not taken: mailbox unavailable (A1-B2C3) | fail
rcpt | 450 Requested mail action not taken: mailbox unavailable (e.g., mailbox busy) | retry
dot | 554 Transaction failed / Reject due to policy restrictions. | fail, alike
greeting | 554 IP=192.0.2.1 - A problem occurred. (BL) | halt
mail | 421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred | suspect
greeting | 553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1 | halt
mail | 553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1 | fail, alike
rcpt | 552 1 Requested mail action aborted, mailbox not found | fail
dot | 550 5.7.0 From address is not one of your addresses. | fail, alike
mail | 553 5.7.1 Sender address rejected: not owned by auth user. | fail, alike
rcpt | 451 4.7.1 Sorry, the service is currently unavailable. Please come back later. | retry
rcpt | 550 5.7.1 No such user! | fail, alike
rcpt | 550 Message was not accepted. Local mailbox a@x.example is unavailable | fail
rcpt | 554 Blocked - see https://ipcheck.proofpoint.com/?ip=192.0.2.1 | fail, alike
rcpt | 451 Internal resources are temporarily unavailable | retry, alike
rcpt dot | 550 Exceeding outbound thread limit | suspect
dot | 550 permanent failure for one or more recipients (a@x.example:blocked) | fail, alike
mail dot | 460 too many messages (#4.3.0) | suspect
rcpt dot | 550 Sender frequency limited | suspect
rcpt dot | 550 Domain frequency limited | suspect
rcpt | 550 user@shop.example has sent too many messages this hour. IB504 | suspect
rcpt | 550 5.1.1 <a@x.example> 192.0.2.1 has sent to too many recipients this hour. | suspect
rcpt dot | 550 This IP has sent too many to too many recipients this hour. IB607 | suspect
rcpt | 550 5.1.0 192.0.2.1 is not allowed to send from <shop.example> | fail, alike
rcpt | 550 too many connect from 192.0.2.1 | suspect
dot | 550 5.7.1 [CSR] Our system has detected an unusual amount of unsolicited email | suspect
"""
"""SendGrid, Mailgun, Mailtrap, Brevo, Resend, Postmark, Zoho, WildDuck, IONOS, GMX, and so on."""

SERVERS = """
mail | 450 4.7.1 Error: too much mail from 192.0.2.1 | suspect
rcpt | 450 4.7.1 Error: too many recipients from 192.0.2.1 | suspect
rcpt | 421 4.7.0 mx.example Error: too many errors | suspect
mail | 452 4.3.1 Insufficient system storage | suspect
rcpt | 454 4.7.1 <a@x.example>: Relay access denied | retry, alike
rcpt | 554 5.7.1 <a@x.example>: Relay access denied | fail, alike
rcpt | 554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen | fail, alike
rcpt | 450 4.7.25 Client host rejected: cannot find your hostname, [192.0.2.1] | retry, alike
rcpt | 450 4.7.1 Client host rejected: cannot find your hostname, [192.0.2.1] | retry, alike
mail data dot | 451 4.7.1 Service unavailable - try again later | retry, alike
dot | 451 4.7.1 Clamd is not available | retry, alike
rcpt | 451 4.7.1 Service unavailable - try again later | retry
mail rcpt | 450 4.7.1 <a@shop.example>: Sender address rejected: Access denied | retry, alike
rcpt | 450 4.3.2 Service currently unavailable | retry, alike
rcpt | 450 4.2.0 <a@x.example>: Recipient address rejected: Greylisted | retry
rcpt | 450 4.7.1 <a@x.example>: Recipient address rejected: Policy- Quota Exceeded. | suspect
rcpt | 450 4.7.1 <a@x.example>: Recipient address rejected: Policy: Please try later. | retry
rcpt | 450 4.7.1 <a@x.example>: Recipient address rejected: rate limit exceeded | suspect
dot | 450 4.7.1 <END-OF-MESSAGE>: End-of-data rejected: Number messages per hour exceeded | suspect
rcpt | 554 5.7.1 <a@x.example>: Recipient address rejected: Quota exceeded (mails) | suspect
dot | 554 5.7.1 <END-OF-MESSAGE>: End-of-data rejected: Quota exceeded (accumulated size) | suspect
rcpt | 450 4.7.1 <a@x.example>: Recipient address rejected: Daily limit reached | suspect
rcpt | 450 4.2.1 You are sending too many emails too fast. | suspect
dot | 451 4.7.1 Ratelimit "user" exceeded | suspect
dot | 451 4.7.1 Greylisted, please try again later | retry
dot | 451 4.5.0 Error in processing, id=12-3 | retry, alike
dot | 554 5.7.0 Reject, id=12-3 - spam | fail, alike
mail | 452 Space shortage, please try later | suspect
mail | 452 4.4.5 Insufficient disk space; try again later | suspect
mail | 421 too many messages in this connection | suspect
rcpt dot | 451 Temporary local problem - please try later | retry, alike
rcpt data | 450 Sender rate 12.3 / 1h | suspect
rcpt | 550 Verification failed for <a@shop.example> No Such User Sender verify failed | fail, alike
dot | 550 Domain shop.example has exceeded the max emails per hour (101/100) allowed | suspect
greeting | 421 4.3.2 Connection rate limit exceeded. | halt
rcpt | 550 5.7.1 <a@x.example>... Relaying denied. Proper authentication required. | fail, alike
dot | 451 qqt failure (#4.3.0) | retry, alike
rcpt | 553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1) | fail, alike
rcpt | 550 sorry, no mailbox here by that name. (#5.1.1) | fail, alike
rcpt | 550 5.1.2 Relay not allowed. | fail, alike
rcpt | 503 5.5.1 You must authenticate first. | retry, alike
rcpt | 451 4.4.5 Rate limit exceeded, try again later. | suspect
rcpt | 451 4.5.3 Too many recipients. | retry, alike
data | 451 Temporary failure, please try again later. | retry, alike
rcpt | 503 This mail server requires authentication when attempting to send | retry, alike
"""
"""Postfix and its policy servers, Exim, Sendmail, qmail, Stalwart, and so on."""

OF_ONE = """
rcpt dot | 552 5.2.2 Mailbox quota exceeded | fail
rcpt | 550 Unrouteable address | fail
rcpt | 550 Unrouteable address / Sender verify failed | fail, alike
rcpt | 550 5.4.1 Recipient address rejected: Access denied. [AB1.eur.mail.example] | fail
rcpt | 554 5.7.1 <a@x.example>: Recipient address rejected: Access denied | fail, alike
data | 550 5.4.1 All recipient addresses rejected : Access denied | fail
rcpt | 550 5.4.1 No answer from host | fail, alike
rcpt | 550 #5.1.0 Address rejected. | fail
rcpt | 452 #4.3.1 Insufficient system storage | retry, alike
rcpt | 550 5.7.1 Recipient address suppressed due to customer policy | fail
rcpt | 550 Recipient is on the suppression list | fail
rcpt | 550 No such person at this address | fail
rcpt | 550 Account inactive | fail
rcpt | 550 Your account is inactive | fail, alike
rcpt | 552 Mailbox quota exceeded | fail
rcpt dot | 552 Too much mail data a@x.example | fail
rcpt | 550 5.1.1 <has.sent.too.many@x.example>: User unknown | fail
rcpt | 552 Mailbox full: message quota exceeded | fail
rcpt | 550 The recipient's mailbox has reached its daily limit | fail, alike
rcpt | 550 5.7.1 The mailbox's quota exceeded | fail
rcpt | 450 4.7.1 Over quota: message limit exceeded | retry, alike
rcpt | 550 5.1.1 <a@x.example>: rejected: User unknown in relay recipient table | fail
dot | 554 5.7.1 Spam score exceeded the threshold | fail, alike
dot | 554 5.7.1 Message has an unusual number of links | fail, alike
rcpt | 550 5.7.1 The recipient is receiving too many messages | fail, alike
rcpt | 550 5.1.1 <quota-exceeded@x.example>: User unknown | fail
rcpt | 550 5.1.1 <a@x.example>: user limit exceeded is unknown | fail
rcpt | 550 <throttle@x.example>: User unknown | fail
rcpt | 554 5.7.1 <a@rate-limit.example>: Relay access denied | fail, alike
rcpt dot | 550 5.7.1 Host throttle.example [192.0.2.1] blocked | fail, alike
rcpt dot | 550 5.7.1 Rejected, see https://x.example/rate-limit.html | fail, alike
rcpt | 550 <mailbox@full.example>: Service refused | fail, alike
rcpt | 450 4.7.1 Greylisted: too many messages | retry
rcpt | 451 4.7.1 Greylisting in action, rate limit exceeded | retry
rcpt | 450 4.7.1 <quota-exceeded@x.example>: Recipient address rejected: not yet | retry
mail | 450 4.7.1 Greylisted, try again | retry
rcpt | 552 5.3.4 Message size exceeds sender size limit | fail, alike
rcpt dot | 552 5.7.0 Message size limit exceeded | fail, alike
rcpt dot | 552 Message size limit exceeded | fail, alike
rcpt | 550 5.5.3 Your message has too many recipients, see our sending limits | fail, alike
dot | 554 5.7.1 Spam score limit exceeded | fail, alike
dot | 550 5.7.1 Unusual characters in the subject | fail, alike
dot | 554 5.7.1 Message rejected as spam by our filter | fail, alike
mail | 552 5.3.4 Message size exceeds the limit | fail, alike
"""
"""What speaks of a limit, or seems to, and is about one email or recipient."""


def cases() -> list[object]:
    table = "".join((LARGE, PROVIDERS, SERVERS, OF_ONE))
    rows = [line.split(" | ") for line in table.strip().splitlines() if line]
    return [
        pytest.param(Phase(phase), line, wanted, id=f"{phase}: {line}")
        for phases, line, wanted in rows
        for phase in phases.split()
    ]


@pytest.mark.parametrize(("phase", "line", "wanted"), cases())
def test_what_comes_of_what_providers_and_servers_say(phase: Phase, line: str, wanted: str) -> None:
    reply = parse_reply(int(line[:3]), line[4:].replace(" / ", "\n").encode())
    found = judge(phase, reply)
    words = [found.verdict, *["alert"] * found.alert]
    if found.verdict in (Verdict.RETRY, Verdict.FAIL):
        words += ["alike"] * (fingerprint(phase, reply) is not None)
    assert ", ".join(words) == wanted
