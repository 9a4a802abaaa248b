"""Texts in many scripts and charsets, and lines that programs on the way like to change."""

from __future__ import annotations

from tests.support.corpus.meant import Meant

GERMAN = "Grüße aus Köln,\n\nvielen Dank für Ihre Bestellung über 17,50 €.\n-- \nJörg Müller\n"
CHINESE = "感谢您的订购。\n您的包裹将于明天送达。\n"
FAMILY = "👨\u200d👩\u200d👧\u200d👦"

_SCRIPTS = {
    "Thai": ("ขอบคุณสำหรับการสั่งซื้อ", "สินค้าจะถึงพรุ่งนี้"),
    "Korean": ("주문해 주셔서 감사합니다", "내일 도착합니다. 값 17,500원"),
    "Japanese": ("ご注文ありがとうございます", "明日お届けします。ｶﾀｶﾅも"),
    "Devanagari": ("आपके ऑर्डर के लिए धन्यवाद", "कल पहुँचेगा: क्षत्रिय श्री"),
    "Burmese": ("မှာယူမှုအတွက် ကျေးဇူးတင်ပါသည်", "မနက်ဖြန် ရောက်ပါမည်"),
    "Tamil": ("உங்கள் ஆர்டருக்கு நன்றி", "நாளை வந்து சேரும்"),
    "Greek": ("Ευχαριστούμε για την παραγγελία", "Θα φτάσει αύριο"),
    "Cyrillic": ("Спасибо за заказ", "Посылка придёт завтра, её вручит курьер"),
    "Georgian and Armenian": ("გმადლობთ შეკვეთისთვის", "Շնորհակալություն"),
    "Amharic": ("ስለ ትዕዛዝዎ እናመሰግናለን", "ነገ ይደርሳል"),
    "Vietnamese, composed and not": ("Cảm ơn bạn", "Ca\u0309m o\u031bn ba\u0323n"),
    "combining characters on end": ("Z\u0351\u036b\u0343a\u0334\u0321lgo", "e\u0301" * 300),
    "joined emoji": (f"{FAMILY} 🏳️\u200d🌈", f"{FAMILY}👩🏽\u200d🚀 1️⃣ 🇩🇪🇫🇷"),
    "letters beyond the first plane": ("𝔒𝔯𝔡𝔢𝔯 𠮷野家", "𐍈𐌰𐌹 𒀀𒁀 𠜎𠜱"),
    "Arabic and digits and Latin": ("طلب رقم 17 من shop", "السعر 17.50 EUR (شامل)"),
    "Hebrew with marks of direction": ("הזמנה \u200f17\u200e!", "\u202bשלום\u202c \u2067abc\u2069"),
    "Persian with a non-joiner": ("سفارش شما", "می\u200cخواهم"),
}

TEXTS: dict[str, Meant] = {
    "a text": Meant(text="Thank you.\n"),
    "a text with odd lines": Meant(text="From me\n.\n..\n--x\n=3D=\n\n>From you\n\tü \nend\n"),
    "a long line": Meant(text="word " * 700 + "ü\n" + "x" * 1500 + "\n"),
    "German": Meant(text=GERMAN, html=f"<p>{GERMAN}</p>\n", subject="Grüße an Sie"),
    "Chinese": Meant(text=CHINESE, html=f"<p>{CHINESE}</p>\n", subject="您的订单 17"),
    "emoji": Meant(text="😀 👩\u200d🚀 🇩🇪\n", subject="😀 end"),
    "Arabic and Hebrew": Meant(text="شكرا لطلبك\nתדה על הזמנת\n", subject="شكرا لطلبك"),
    "HTML alone": Meant(html="<p>Grüße</p>\n"),
    "HTML alone, in ASCII": Meant(html="<p>hello</p>\n"),
    **{
        script: Meant(subject=subject, text=f"{subject}\n{text}\n", html=f"<p>{text}</p>\n")
        for script, (subject, text) in _SCRIPTS.items()
    },
    "a line of 998 octets": Meant(text="x" * 998 + "\nend\n"),
    "a line of 999 octets": Meant(text="x" * 999 + "\nend\n"),
    "a line of 5000 octets": Meant(text="x" * 5000 + "\nend\n", html="<p>" + "y" * 5000),
    "a line of 998 octets in UTF-8": Meant(text="ü" * 499 + "\nend\n"),
    "a line of 1,000 octets that begins with a dot": Meant(text="." * 1000 + "\n.\n"),
    "HTML on one line": Meant(html="<html><body>" + "<p>Grüße &amp; mehr</p>" * 900 + "</body>"),
    "dots alone": Meant(text=".\n..\n...\n.\n"),
    "dots at the ends of quoted lines": Meant(text=("ü" + "x" * 73 + ".\n") * 5 + ".ü\n"),
    "lines that begin with From": Meant(text="From here\nFrom there\n\nFrom ü on\n>From\n"),
    "lines like delimiters": Meant(text="--\n--=_\n--=_0--\n--boundary\nü\n", html="--=_0--\n"),
    "lines like commands": Meant(text="QUIT\nRSET\nDATA\n.\nMAIL FROM:<x@x.example>\n.\n"),
    "a text like headers": Meant(text="Subject: no\nBcc: nobody@x.example\n\nü\n"),
    "a text like quoted-printable": Meant(text="=C3=BC =\n=20\n100 % = 1=\nü=\n"),
    "a text like base64": Meant(text="R3LDvMOfZQ==\n" * 5),
    "blanks at the ends of lines": Meant(text="two  \ntab\t\nboth \t \n \n\t\nend  \n"),
    "blanks at the ends of lines, in UTF-8": Meant(text="zwei  \nü\t\nbeide ü \t \n \nend \n"),
    "a signature's line": Meant(text="Hello,\n\n-- \nThe shop\n"),
    "an empty line first": Meant(text="\n\n\nafter three\n"),
    "an empty text": Meant(text=""),
    "blanks alone": Meant(text="   \n\t\n  \n"),
    "CRLF": Meant(text="one\r\ntwo\r\n\r\nü\r\n"),
    "CR, LF and CRLF": Meant(text="one\rtwo\nthree\r\n\r\rü\n", alone=True),
    "CR at the end": Meant(text="one\r", alone=True),
    "control characters": Meant(text="bell \x07 escape \x1b[31mred\x1b[0m back \x08 end \x1f\n"),
    "control characters of Latin-1": Meant(text="next \x80\x9f end\n"),
    "a form feed": Meant(text="page 1\fpage 2\nü\n"),
    "NUL": Meant(text="before \0 after\n"),
    "a soft hyphen and blanks of all kinds": Meant(text="a\u00adb\u00a0c\u2009d\u3000e\u200bf\n"),
    "a mark of byte order": Meant(text="\ufeffGrüße\n"),
    "a replacement character": Meant(text="gr\ufffd\ufffde\n"),
    "Unicode's own line ends": Meant(text="a\u2028b\u2029c\u0085d\n"),
    "a huge text": Meant(text="The quick brown fox jumps over the lazy dog.\n" * 5000),
    "a huge text in German": Meant(text=GERMAN * 1500),
    "a huge text in Chinese": Meant(text=CHINESE * 3000),
    "nearly all ASCII": Meant(text="plain words only, and once an ü.\n" + "more of them\n" * 50),
    "every letter of Latin-1": Meant(text="".join(map(chr, range(0xA1, 0x100))) + "\n"),
    "Latin-1": Meant(text=GERMAN.replace("€", "EUR"), options={"charset": "iso-8859-1"}),
    "Latin-9": Meant(text=GERMAN, options={"charset": "iso-8859-15"}),
    "Windows-1252": Meant(text="„Grüße“ – 5 €…\n", options={"charset": "windows-1252"}),
    "Windows-1251": Meant(text="Спасибо\n", subject="Заказ", options={"charset": "windows-1251"}),
    "KOI8-R": Meant(text="Спасибо за заказ\n", options={"charset": "koi8-r"}),
    "ISO-2022-JP": Meant(text="こんにちは\n", subject="日本", options={"charset": "iso-2022-jp"}),
    "Shift-JIS": Meant(text="こんにちは、表\n", options={"charset": "shift_jis"}),
    "EUC-KR": Meant(text="주문 감사합니다\n", options={"charset": "euc-kr"}),
    "Big5": Meant(text="感謝您的訂購\n", html="<p>許功蓋</p>\n", options={"charset": "big5"}),
    "GBK": Meant(text=CHINESE, options={"charset": "gbk"}),
    "TIS-620": Meant(text="ขอบคุณ\n", options={"charset": "tis-620"}),
    "ASCII by name": Meant(text="Thank you.\n", options={"charset": "us-ascii"}),
}
