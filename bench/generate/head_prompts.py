"""Requests whose answers a draft head learns from: the five kinds of text that the benchmark asks for, and
others, about many subjects. None of them is one of the benchmark's own."""

import itertools
import random

from kinds_of_text import REQUESTS

SUBJECTS = """the sea; a volcano; bees; a bridge; the moon; a train station; coffee; an old clock; gardening;
a desert; music; a library; a wolf; the rain forest; chess; a market; glass; a castle; winter; a river; the heart;
electricity; bread; paper; an island; a doctor; a farmer; ships; salt; mountains; a school; the wind; football; silk;
a painter; dreams; the human eye; a city at night; dinosaurs; honey; a robot; friendship; the stars; maps; a violin;
rice; an elephant; photography; earthquakes; a museum; running; the post; iron; clouds; a theatre; tea; a forest;
languages; money; a family meal; the internet; whales; a birthday; cheese; a detective; space travel; snow; a tailor;
swimming; magnets; a king; cotton; birds; a festival; lightning; a hospital; oil; a new job; horses; sleep""".split(";")
ABOUT = ["Write a short story about {}.", "Explain {} to a child.", "Describe {} in one paragraph.",
         "What is interesting about {}?", "Write the beginning of a novel about {}.",
         "Write a letter to a friend about {}.", "Write a newspaper article about {}.",
         "Write a short essay about {} and why it matters.", "What should everybody know about {}?",
         "Write a poem about {}.", "Write a diary entry about {}.", "Give three facts about {}.",
         "Write a product description that has to do with {}.", "Summarize the history of {}."]

PEOPLE = """a teacher and a student; two neighbours; a doctor and a patient; a father and his daughter; a waiter
and a guest; two sisters; a reporter and a scientist; a shop assistant and a customer; a coach and a player; a robot and
a child; two old friends; a tourist and a policeman; a manager and an employee; a grandmother and her grandson""".split(";")
TALKS = ["Write a dialogue between {} about {}.", "Write a conversation in which {} talk about {}.",
         "Write a short scene for the stage: {} argue about {}."]

TASKS = """computes the factorial of a number; reverses a string; finds the largest number in a list; counts the vowels
in a string; removes duplicates from a list; checks whether a number is prime; sorts a list with bubble sort; computes the
average of a list; converts Celsius to Fahrenheit; finds the common elements of two lists; flattens a nested list; counts
how often each word occurs; checks whether two strings are anagrams; computes the greatest common divisor; generates a
random password; reads a CSV file; writes a dictionary to a JSON file; finds the longest word in a sentence; computes the
sum of the digits of a number; rotates a list by k places; validates an e-mail address; converts a number to binary;
transposes a matrix; multiplies two matrices; computes the median; finds a missing number in a sequence; capitalizes
every word; splits a list into chunks; parses a date; computes the area of a circle; merges two dictionaries; finds
all files in a folder; downloads a web page; removes punctuation from a text; checks whether a year is a leap year; prints a
triangle of stars; computes compound interest; encrypts a text with a Caesar cipher; finds the second largest
number; implements a queue; counts lines of a file; groups words by their first letter""".split(";")
CODE = ["Write a Python function that {}.", "Write a Python function that {}, with comments.",
        "Write a Python function that {}, and an example of its use.", "Write a Python program that {}.",
        "Write a class in Python that {}.", "Write a JavaScript function that {}.",
        "Explain how to write a Python function that {}, step by step."]

THINGS = """fruits; vegetables; sports; musical instruments; jobs; colours; cities in the world; rivers; books;
pieces of furniture; kinds of weather; planets and moons; tools in a workshop; inventions; birds; trees; flowers; kinds of
bread; drinks; desserts; school subjects; countries of Asia; countries of Africa; languages; holidays; means of
transport; games for children; things to do on a rainy day; healthy breakfasts; ways to save money; ways to save energy;
tips for a job interview; tips for better sleep; rules of a household; parts of the body; parts of a bicycle; clothes;
materials; films; famous scientists; programming languages; insects; sea animals; spices""".split(";")
LISTS = ["List ten {}.", "List fifteen {} and say something about each.", "Name eight {} with one sentence about each.",
         "Make a numbered list of twenty {}.", "Give a table of ten {} and their properties.",
         "List twelve {} in alphabetical order."]

LINES = """I love my garden.; The cat sat on the mat.; Time flies like an arrow.; Practice makes perfect.; Good morning!;
A rolling stone gathers no moss.; Please close the door.; My favourite colour is blue.; We will meet again.; Red leather,
yellow leather.; The early bird catches the worm.; How much wood would a woodchuck chuck?; Rain, rain, go away.;
All work and no play makes Jack a dull boy.; Hello world.; Look before you leap.""".split(";")
AGAIN = ["Repeat this line eight times: {}", "Write '{}' twelve times, each on its own line.",
         "Copy this text four times: {}", "Write a song whose refrain is '{}'", "Say this again and again: {}"]
COUNTS = ["Write the numbers from {0} to {1}, one on each line.", "Count from {0} to {1} as 'step {0}' and so on.",
          "Write the multiplication table of {0} up to {1}.", "Write the even numbers between {0} and {1}."]

PLAIN = """How do I learn to {}?; Is it hard to {}?; Give me a plan of a week in which I {}.; What do I need to {}?; Write an
e-mail in which I ask my boss whether I may {}.; What are good reasons to {}?""".split(";")
DEEDS = """cook; play the guitar; run a marathon; speak Spanish; grow tomatoes; build a website; ride a horse; paint
a wall; write a book; save money; fix a bicycle; take better photographs; move to another city; work from home; sleep
better; make friends; start a company; travel alone; learn mathematics; bake a cake; swim; read more books""".split(";")


def _clean(texts):
    return [" ".join(text.split()) for text in texts]


def head_requests(seed=0):
    """Some thousand requests in a random order that the seed decides."""
    crossed = [(ABOUT, [SUBJECTS]), (CODE, [TASKS]), (LISTS, [THINGS]), (AGAIN, [LINES]), (PLAIN, [DEEDS]),
               (COUNTS, [range(1, 13), range(20, 100, 20)]), (TALKS, [PEOPLE, SUBJECTS[:20]])]
    made = {form.format(*filling) for forms, parts in crossed
            for form in _clean(forms)
            for filling in itertools.product(*(_clean(map(str, part)) for part in parts))}
    made -= {text for of in REQUESTS.values() for text in of}
    requests = sorted(made)
    random.Random(seed).shuffle(requests)
    return requests
