/* cmd's language: commands joined by & && || |, redirections, groups, if and for. Variables are already expanded. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "commands.h"

static const char *cursor;
static bool wrong;

static struct node *parse_sequence(void);

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static void skip_blanks(void)
{
    while (is_blank(*cursor))
        cursor++;
}

static struct node *new_node(int kind, struct node *left, struct node *right)
{
    struct node *node = keep(sizeof *node);
    node->kind = kind;
    node->left = left;
    node->right = right;
    return node;
}

static struct node *refuse(const char *what)
{
    if (!wrong)
        complain("%s was unexpected at this time.", *what ? what : "The end of the line");
    wrong = true;
    return NULL;
}

char *take_word(const char **at, const char *stops)
{
    struct buffer word = {0};
    bool quoted = false;

    append(&word, "", 0);
    while (is_blank(**at))
        (*at)++;
    for (; **at && (quoted || (!is_blank(**at) && !strchr(stops, **at))); (*at)++) {
        if (**at == '"')
            quoted = !quoted;
        append(&word, *at, 1);
    }
    return word.text;
}

char *unquoted(const char *text)
{
    struct buffer plain = {0};

    append(&plain, "", 0);
    for (; *text; text++)
        if (*text != '"')
            append(&plain, text, 1);
    return plain.text;
}

char *trimmed(const char *text)
{
    while (is_blank(*text))
        text++;
    size_t length = strlen(text);
    while (length && is_blank(text[length - 1]))
        length--;
    return keep_text(text, length);
}

char **split_arguments(const char *text, int *count)
{
    char **list = keep((strlen(text) / 2 + 2) * sizeof *list);

    *count = 0;
    for (;;) {
        struct buffer argument = {0};
        bool quoted = false;

        while (is_blank(*text))
            text++;
        if (*text == '\0')
            return list;
        append(&argument, "", 0);
        while (*text && (quoted || !is_blank(*text))) {
            size_t backslashes = strspn(text, "\\");
            bool before_quote = text[backslashes] == '"';
            append(&argument, text, before_quote ? backslashes / 2 : backslashes);
            text += backslashes;
            if (before_quote && backslashes % 2) {
                append(&argument, text++, 1);
            } else if (before_quote) {
                if (quoted && text[1] == '"')
                    append(&argument, text++, 1);
                quoted = !quoted;
                text++;
            } else if (*text && (quoted || !is_blank(*text))) {
                append(&argument, text++, 1);
            }
        }
        list[(*count)++] = argument.text;
    }
}

/* At > or <; the number of the descriptor, if there is one, is already in the text. */
static struct redirection *parse_redirection(struct buffer *text)
{
    struct redirection *redirection = keep(sizeof *redirection);
    size_t length = text->length;

    redirection->kind = *cursor == '<' ? READ_FROM : WRITE_TO;
    redirection->descriptor = *cursor == '<' ? 0 : 1;
    if (length && isdigit((unsigned char)text->text[length - 1]) && (length == 1 || is_blank(text->text[length - 2]))) {
        redirection->descriptor = text->text[length - 1] - '0';
        text->text[--text->length] = '\0';
    }
    cursor++;
    if (*cursor == '>') {
        redirection->kind = APPEND_TO;
        cursor++;
    }
    if (*cursor == '&') {
        redirection->kind = SAME_AS;
        cursor++;
    }
    redirection->target = unquoted(take_word(&cursor, "&|<>)"));
    if (*redirection->target == '\0')
        refuse(cursor);
    return redirection;
}

/* Text up to the next operator. Quotes hide operators, and ^ does so for one character. */
static struct node *parse_command(int depth)
{
    struct node *node = new_node(COMMAND, NULL, NULL);
    struct redirection **next = &node->redirections;
    struct buffer text = {0};
    bool quoted = false;

    append(&text, "", 0);
    while (*cursor && *cursor != '\n' && !wrong) {
        char c = *cursor;
        if (!quoted && (c == '&' || c == '|' || (c == ')' && depth > 0)))
            break;
        if (!quoted && (c == '>' || c == '<')) {
            *next = parse_redirection(&text);
            next = &(*next)->next;
            continue;
        }
        if (c == '"')
            quoted = !quoted;
        if (c == '^' && !quoted && cursor[1])
            cursor++;
        append(&text, cursor++, 1);
    }
    node->text = text.text;
    return node;
}

static int group_depth;

static bool at_word(const char *word)
{
    size_t length = strlen(word);
    char after = cursor[0] ? cursor[strnlen(cursor, length)] : '\0';
    return strncasecmp(cursor, word, length) == 0 && (is_blank(after) || after == '(' || after == '\0' || after == '/');
}

static bool accept_word(const char *word)
{
    skip_blanks();
    if (!at_word(word))
        return false;
    cursor += strlen(word);
    skip_blanks();
    return true;
}

static struct node *parse_group(void)
{
    struct node *group = new_node(GROUP, NULL, NULL);
    struct redirection **next = &group->redirections;
    struct buffer none = {0};

    cursor++;
    group_depth++;
    group->left = parse_sequence();
    group_depth--;
    if (*cursor != ')')
        return refuse(cursor);
    cursor++;
    append(&none, "", 0);
    for (skip_blanks(); strchr("<>", cursor[isdigit((unsigned char)*cursor) != 0]) && *cursor; skip_blanks()) {
        if (isdigit((unsigned char)*cursor))
            append(&none, cursor++, 1);
        *next = parse_redirection(&none);
        next = &(*next)->next;
    }
    return group;
}

static bool parse_comparison(struct condition *condition)
{
    static const char *const relations[] = {"EQU", "NEQ", "LSS", "LEQ", "GTR", "GEQ", NULL};

    condition->kind = COMPARED;
    condition->left = take_word(&cursor, "=");
    skip_blanks();
    if (cursor[0] == '=' && cursor[1] == '=') {
        cursor += 2;
        strcpy(condition->relation, "EQU");
    } else {
        char *relation = take_word(&cursor, "");
        for (const char *const *known = relations; *known; known++)
            if (strcasecmp(relation, *known) == 0)
                strcpy(condition->relation, *known);
    }
    condition->right = take_word(&cursor, "(");
    return *condition->relation != '\0';
}

static struct node *parse_if(void)
{
    struct node *node = new_node(IF, NULL, NULL);
    struct condition *condition = keep(sizeof *condition);

    node->condition = condition;
    condition->any_case = accept_word("/i");
    condition->negated = accept_word("not");
    if (accept_word("exist"))
        condition->kind = EXISTS;
    else if (accept_word("defined"))
        condition->kind = DEFINED;
    else if (accept_word("errorlevel"))
        condition->kind = ERRORLEVEL;
    else if (!parse_comparison(condition))
        return refuse(cursor);
    if (condition->kind != COMPARED)
        condition->left = unquoted(take_word(&cursor, "("));
    skip_blanks();
    if (*cursor != '(') {
        node->left = parse_sequence(); /* the rest of the line belongs to it */
        return node;
    }
    node->left = parse_group();
    if (accept_word("else"))
        node->right = *cursor == '(' ? parse_group() : parse_sequence();
    return node;
}

static struct node *parse_for(void)
{
    struct node *node = new_node(FOR, NULL, NULL);

    node->counting = accept_word("/l");
    skip_blanks();
    if (*cursor != '%' || !isalpha((unsigned char)cursor[1]))
        return refuse(cursor);
    node->variable = cursor[1];
    cursor += 2;
    if (!accept_word("in") || *cursor != '(')
        return refuse(cursor);
    size_t length = strcspn(++cursor, ")");
    node->text = keep_text(cursor, length);
    cursor += length + (cursor[length] == ')');
    if (!accept_word("do"))
        return refuse(cursor);
    node->left = *cursor == '(' ? parse_group() : parse_sequence();
    return node;
}

static struct node *parse_simple(void)
{
    skip_blanks();
    while (*cursor == '@')
        cursor++;
    skip_blanks();
    if (*cursor == '(')
        return parse_group();
    if (accept_word("if"))
        return parse_if();
    if (accept_word("for"))
        return parse_for();
    if (at_word("rem")) {
        cursor += strlen(cursor);
        return new_node(GROUP, NULL, NULL);
    }
    return parse_command(group_depth);
}

static struct node *parse_pipe(void)
{
    struct node *node = parse_simple();
    while (!wrong && cursor[0] == '|' && cursor[1] != '|') {
        cursor++;
        node = new_node(PIPE, node, parse_simple());
    }
    return node;
}

static struct node *parse_and(void)
{
    struct node *node = parse_pipe();
    while (!wrong && cursor[0] == '&' && cursor[1] == '&') {
        cursor += 2;
        node = new_node(AND, node, parse_pipe());
    }
    return node;
}

static struct node *parse_or(void)
{
    struct node *node = parse_and();
    while (!wrong && cursor[0] == '|' && cursor[1] == '|') {
        cursor += 2;
        node = new_node(OR, node, parse_and());
    }
    return node;
}

static struct node *parse_sequence(void)
{
    struct node *node = parse_or();
    for (;;) {
        while (group_depth > 0 && is_blank(*cursor))
            cursor++;
        bool joined = cursor[0] == '&' && cursor[1] != '&';
        bool next_line = group_depth > 0 && *cursor && *cursor != ')' && *cursor != '&' && *cursor != '|';
        if (wrong || !(joined || next_line))
            return node;
        cursor += joined;
        node = new_node(SEQUENCE, node, parse_or());
    }
}

struct node *parse(const char *line)
{
    cursor = line;
    wrong = false;
    group_depth = 0;
    struct node *node = parse_sequence();
    skip_blanks();
    if (!wrong && *cursor)
        refuse(cursor);
    return wrong ? NULL : node;
}
