// Continue a text with `headway export RUN --to gguf`, by llama.cpp alone: the likeliest token each time.
//
//     g++ -std=c++17 -O2 gguf_generate.cpp -o gguf_generate -lllama -lggml -lggml-base
//     ./gguf_generate notes-gguf/model.gguf "Anna finds" 40
//
// Exit status 1: the file is no model that llama.cpp reads, or the text has no tokens or more than the model reads.

#include <llama.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int count, char ** words) {
    if (count != 4) {
        std::fprintf(stderr, "usage: %s model.gguf TEXT TOKENS\n", words[0]);
        return 2;
    }
    const std::string text = words[2];
    llama_log_set([](ggml_log_level level, const char * line, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(line, stderr);
    }, nullptr);
    llama_model * model = llama_model_load_from_file(words[1], llama_model_default_params());
    if (model == nullptr) return 1;
    const llama_vocab * vocab = llama_model_get_vocab(model);

    std::vector<llama_token> ids(text.size() + 8);  // no tokenizer makes more tokens than there are bytes, and specials
    const int read = llama_tokenize(vocab, text.data(), text.size(), ids.data(), ids.size(), true, false);
    ids.resize(std::max(read, 0));

    llama_context_params how = llama_context_default_params();
    how.n_ctx = how.n_batch = llama_model_n_ctx_train(model);
    how.type_k = how.type_v = GGML_TYPE_F32;  // the cache's default is float16
    llama_context * context = llama_init_from_model(model, how);
    if (context == nullptr) return 1;

    for (int left = std::atoi(words[3]); left > 0; left--) {
        if (llama_decode(context, llama_batch_get_one(ids.data(), ids.size())) != 0) return 1;
        const float * logits = llama_get_logits_ith(context, -1);
        const llama_token next = std::max_element(logits, logits + llama_vocab_n_tokens(vocab)) - logits;
        if (llama_vocab_is_eog(vocab, next)) break;
        char piece[256];
        const int length = llama_token_to_piece(vocab, next, piece, sizeof piece, 0, false);
        std::fwrite(piece, 1, std::max(length, 0), stdout);
        ids = {next};
    }
    std::puts("");
    llama_free(context);
    llama_model_free(model);
}
